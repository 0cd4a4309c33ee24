"""Ranking of documents, in the shapes of Jina, vLLM and llama-server (`/rerank`), TEI and vLLM (`/score`)."""
