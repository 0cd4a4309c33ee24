"""Generated from llmserver.proto by `make proto`; do not edit.

The descriptors are in a pool of their own: a client's module for the same package may be imported too.
"""

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message_factory import GetMessageClass

_POOL = DescriptorPool()
_POOL.AddSerializedFile(
    b'\n\x0fllmserver.proto\x12\x05proto'
    b'"\r\n\x0bPingRequest"\x0e\n\x0cPingR'
    b'esponse"m\n\x10LoadModelRequ'
    b'est\x12\x0c\n\x04path\x18\x01 \x01(\t\x12\x19\n\x11tru'
    b'st_remote_code\x18\x02 \x01(\x08\x12$\n\x07'
    b'backend\x18\x03 \x01(\x0e2\x0e.proto.Ba'
    b'ckendH\x00\x88\x01\x01B\n\n\x08_backend"%'
    b'\n\x11LoadModelResponse\x12\x10\n\x08p'
    b'rogress\x18\x01 \x01(\x02"\x84\x06\n\x0ePredic'
    b'tRequest\x12\r\n\x05model\x18\x01 \x01(\t\x12'
    b'\x0e\n\x06prompt\x18\x02 \x01(\t\x12\x0e\n\x06strea'
    b'm\x18\x03 \x01(\x08\x12\x12\n\nmax_tokens\x18\x04 '
    b'\x01(\x05\x12\x13\n\x0btemperature\x18\x05 \x01(\x02'
    b'\x12\r\n\x05top_p\x18\x06 \x01(\x02\x12\r\n\x05top_k'
    b'\x18\x07 \x01(\x05\x12.\n\x07options\x18\x08 \x01(\x0b2'
    b'\x1d.proto.PredictRequest.O'
    b'ptions\x1a\xcb\x04\n\x07Options\x12\x12\n\x05mi'
    b'n_p\x18\x01 \x01(\x02H\x00\x88\x01\x01\x12\x1f\n\x12min_to'
    b'kens_to_keep\x18\x02 \x01(\x05H\x01\x88\x01\x01\x12'
    b'\x18\n\x0bmax_kv_size\x18\x03 \x01(\x05H\x02\x88\x01'
    b'\x01\x12\x1e\n\x11prefill_step_size\x18\x04'
    b' \x01(\x05H\x03\x88\x01\x01\x12\x14\n\x07kv_bits\x18\x05 \x01'
    b'(\x05H\x04\x88\x01\x01\x12\x1a\n\rkv_group_size'
    b'\x18\x06 \x01(\x05H\x05\x88\x01\x01\x12\x1f\n\x12quantized'
    b'_kv_start\x18\x07 \x01(\x05H\x06\x88\x01\x01\x12\x1f\n\x12'
    b'repetition_penalty\x18\x08 \x01(\x02'
    b'H\x07\x88\x01\x01\x12\x1b\n\x0elength_penalty\x18'
    b'\t \x01(\x02H\x08\x88\x01\x01\x12\x1e\n\x11diversity_'
    b'penalty\x18\n \x01(\x02H\t\x88\x01\x01\x12!\n\x14no'
    b'_repeat_ngram_size\x18\x0b \x01(\x05'
    b'H\n\x88\x01\x01\x12\x18\n\x0brandom_seed\x18\x0c \x01'
    b'(\x05H\x0b\x88\x01\x01B\x08\n\x06_min_pB\x15\n\x13_mi'
    b'n_tokens_to_keepB\x0e\n\x0c_max'
    b'_kv_sizeB\x14\n\x12_prefill_ste'
    b'p_sizeB\n\n\x08_kv_bitsB\x10\n\x0e_k'
    b'v_group_sizeB\x15\n\x13_quantiz'
    b'ed_kv_startB\x15\n\x13_repetiti'
    b'on_penaltyB\x11\n\x0f_length_pe'
    b'naltyB\x14\n\x12_diversity_pena'
    b'ltyB\x17\n\x15_no_repeat_ngram_'
    b'sizeB\x0e\n\x0c_random_seed"A\n\x0f'
    b'PredictResponse\x12\x0f\n\x07messa'
    b'ge\x18\x01 \x01(\x0c\x12\r\n\x05token\x18\x02 \x01(\x05\x12'
    b'\x0e\n\x06tokens\x18\x03 \x01(\x05""\n\x12Unloa'
    b'dModelRequest\x12\x0c\n\x04path\x18\x01 '
    b'\x01(\t"\x15\n\x13UnloadModelRespon'
    b'se"%\n\x15GetModelStatusRequ'
    b'est\x12\x0c\n\x04path\x18\x01 \x01(\t"\\\n\x16Get'
    b'ModelStatusResponse\x12\x0c\n\x04p'
    b'ath\x18\x01 \x01(\t\x12"\n\x06status\x18\x02 \x01('
    b'\x0e2\x12.proto.ModelStatus\x12\x10\n'
    b'\x08progress\x18\x03 \x01(\x02"\x13\n\x11ListM'
    b'odelsRequest"\x14\n\x12ListMode'
    b'lsResponse*j\n\x07Backend\x12\x17\n'
    b'\x13BACKEND_UNSPECIFIED\x10\x00\x12\x15'
    b'\n\x11BACKEND_LLAMA_CPP\x10\x01\x12\x0f\n'
    b'\x0bBACKEND_MLX\x10\x02\x12\x0e\n\nBACKEN'
    b'D_TF\x10\x03\x12\x0e\n\nBACKEND_PT\x10\x04*?'
    b'\n\x0bModelStatus\x12\x0b\n\x07UNKNOWN'
    b'\x10\x00\x12\x0b\n\x07LOADING\x10\x01\x12\n\n\x06LOADE'
    b'D\x10\x02\x12\n\n\x06FAILED\x10\x032\xba\x01\n\tLLMS'
    b'erver\x12/\n\x04Ping\x12\x12.proto.Pi'
    b'ngRequest\x1a\x13.proto.PingRe'
    b'sponse\x12@\n\tLoadModel\x12\x17.pr'
    b'oto.LoadModelRequest\x1a\x18.p'
    b'roto.LoadModelResponse0\x01'
    b'\x12:\n\x07Predict\x12\x15.proto.Pred'
    b'ictRequest\x1a\x16.proto.Predi'
    b'ctResponse0\x01b\x06proto3'
)
DESCRIPTOR = _POOL.FindFileByName('llmserver.proto')

Backend = EnumTypeWrapper(DESCRIPTOR.enum_types_by_name['Backend'])
BACKEND_UNSPECIFIED = 0
BACKEND_LLAMA_CPP = 1
BACKEND_MLX = 2
BACKEND_TF = 3
BACKEND_PT = 4
ModelStatus = EnumTypeWrapper(DESCRIPTOR.enum_types_by_name['ModelStatus'])
UNKNOWN = 0
LOADING = 1
LOADED = 2
FAILED = 3

PingRequest = GetMessageClass(DESCRIPTOR.message_types_by_name['PingRequest'])
PingResponse = GetMessageClass(DESCRIPTOR.message_types_by_name['PingResponse'])
LoadModelRequest = GetMessageClass(DESCRIPTOR.message_types_by_name['LoadModelRequest'])
LoadModelResponse = GetMessageClass(DESCRIPTOR.message_types_by_name['LoadModelResponse'])
PredictRequest = GetMessageClass(DESCRIPTOR.message_types_by_name['PredictRequest'])
PredictResponse = GetMessageClass(DESCRIPTOR.message_types_by_name['PredictResponse'])
UnloadModelRequest = GetMessageClass(DESCRIPTOR.message_types_by_name['UnloadModelRequest'])
UnloadModelResponse = GetMessageClass(DESCRIPTOR.message_types_by_name['UnloadModelResponse'])
GetModelStatusRequest = GetMessageClass(DESCRIPTOR.message_types_by_name['GetModelStatusRequest'])
GetModelStatusResponse = GetMessageClass(DESCRIPTOR.message_types_by_name['GetModelStatusResponse'])
ListModelsRequest = GetMessageClass(DESCRIPTOR.message_types_by_name['ListModelsRequest'])
ListModelsResponse = GetMessageClass(DESCRIPTOR.message_types_by_name['ListModelsResponse'])
