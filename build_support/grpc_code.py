"""Generate the Python code of the gRPC service from its `.proto` (``make proto``).

Not protoc's own Python output: that registers its names in protobuf's common pool, where they would clash
with those that a client generates from the same package, and it runs only with the protobuf that made it, or
a newer one. The stub file is protoc's.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from toolchain import ROOT

FOLDER = ROOT / "python" / "llmserve" / "server" / "apis" / "grpc"
PROTO = FOLDER / "llmserver.proto"

_HEAD = '''\
"""Generated from llmserver.proto by `make proto`; do not edit.

The descriptors are in a pool of their own: a client's module for the same package may be imported too.
"""

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message_factory import GetMessageClass

_POOL = DescriptorPool()
_POOL.AddSerializedFile(
'''
_BYTES_A_LINE = 24


def generate() -> dict[str, str]:
    """Text of each generated file by its name; needs `grpcio-tools`."""
    with tempfile.TemporaryDirectory() as work:
        descriptors = Path(work) / "descriptors"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{FOLDER}", f"--pyi_out={work}"]
        subprocess.run([*command, f"--descriptor_set_out={descriptors}", PROTO.name], check=True)
        (file,) = FileDescriptorSet.FromString(descriptors.read_bytes()).file
        stub = f"{PROTO.stem}_pb2.pyi"
        return {f"{PROTO.stem}_pb2.py": _module(file), stub: (Path(work) / stub).read_text()}


def _module(file: FileDescriptorProto) -> str:
    for message in file.message_type:
        _drop_json_names(message)
    raw = file.SerializeToString()
    parts = (raw[start : start + _BYTES_A_LINE] for start in range(0, len(raw), _BYTES_A_LINE))
    lines = [f"    {part!r}" for part in parts]
    lines += [")", f"DESCRIPTOR = _POOL.FindFileByName({file.name!r})", ""]
    for enum in file.enum_type:
        lines.append(f"{enum.name} = EnumTypeWrapper(DESCRIPTOR.enum_types_by_name[{enum.name!r}])")
        lines += [f"{value.name} = {value.number}" for value in enum.value]
    lines.append("")
    for message in file.message_type:
        lines.append(f"{message.name} = GetMessageClass(DESCRIPTOR.message_types_by_name[{message.name!r}])")
    return _HEAD + "\n".join(lines) + "\n"


def _drop_json_names(message: DescriptorProto) -> None:
    # protobuf makes them by itself.
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _drop_json_names(nested)


if __name__ == "__main__":
    for name, text in generate().items():
        (FOLDER / name).write_text(text)
