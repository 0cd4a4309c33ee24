"use strict";

// Runs the script of a server's /docs without a browser: `node page.js URL [KEY OPERATION]` prints what the
// page shows as JSON; with an operation, also what sending it with the key answered.

const vm = require("node:vm");

// As much of a DOM as the script uses. Every selector finds one node, which is made when it is asked for.
class Node {
  constructor(tag) {
    this.tag = tag;
    this.children = [];
    this.found = new Map();
    this.value = "";
    this.textContent = "";
  }

  append(...nodes) { this.children.push(...nodes); }
  cloneNode() { return new Node(this.tag); }
  createTHead() { return this.insertRow(); }
  createTBody() { return this.insertRow(); }

  insertRow() {
    const row = new Node("tr");
    this.append(row);
    return row;
  }

  querySelector(selector) {
    if (!this.found.has(selector)) this.found.set(selector, new Node(selector));
    return this.found.get(selector);
  }

  get content() { return this; }
}

async function main([url, key, operation]) {
  const root = new Node("body");
  const byId = (id) => root.querySelector(id);
  byId("key-row").hidden = true;
  const document = { createElement: (tag) => new Node(tag), getElementById: byId };
  const fetchHere = (path, request) => fetch(new URL(path, url), request);
  const source = await (await fetchHere("docs/docs.js")).text();
  const promise = vm.runInNewContext(`${source}\nshown`.replace("main().catch", "const shown = main().catch"), {
    document, fetch: fetchHere, AbortController, TextDecoderStream,
  });
  await promise;
  const views = byId("operations").children;
  const page = {
    description: byId("description").textContent,
    operations: views.map((view) => view.id),
    schemas: byId("schemas").children.length,
    asksForKey: !byId("key-row").hidden,
  };
  if (operation) {
    byId("key").value = key;
    const view = views.find(({ id }) => id === operation);
    await view.querySelector(".send").onclick();
    page.status = view.querySelector(".status").textContent.split("\n")[0];
    page.output = view.querySelector(".output").textContent;
  }
  console.log(JSON.stringify(page));
}

main(process.argv.slice(2));
