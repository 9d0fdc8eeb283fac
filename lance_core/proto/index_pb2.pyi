from google.protobuf import any_pb2 as _any_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VectorIndexDetails(_message.Message):
    __slots__ = ("hnsw_index_config", "pq", "sq", "rq", "flat")
    class Part(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    HNSW_INDEX_CONFIG_FIELD_NUMBER: _ClassVar[int]
    PQ_FIELD_NUMBER: _ClassVar[int]
    SQ_FIELD_NUMBER: _ClassVar[int]
    RQ_FIELD_NUMBER: _ClassVar[int]
    FLAT_FIELD_NUMBER: _ClassVar[int]
    hnsw_index_config: VectorIndexDetails.Part
    pq: VectorIndexDetails.Part
    sq: VectorIndexDetails.Part
    rq: VectorIndexDetails.Part
    flat: VectorIndexDetails.Part
    def __init__(self, hnsw_index_config: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ..., pq: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ..., sq: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ..., rq: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ..., flat: _Optional[_Union[VectorIndexDetails.Part, _Mapping]] = ...) -> None: ...

class FragmentReuseIndexDetails(_message.Message):
    __slots__ = ("inline", "external")
    class Content(_message.Message):
        __slots__ = ("versions",)
        VERSIONS_FIELD_NUMBER: _ClassVar[int]
        versions: _containers.RepeatedCompositeFieldContainer[FragmentReuseIndexDetails.Version]
        def __init__(self, versions: _Optional[_Iterable[_Union[FragmentReuseIndexDetails.Version, _Mapping]]] = ...) -> None: ...
    class Version(_message.Message):
        __slots__ = ("groups",)
        GROUPS_FIELD_NUMBER: _ClassVar[int]
        groups: _containers.RepeatedCompositeFieldContainer[FragmentReuseIndexDetails.Group]
        def __init__(self, groups: _Optional[_Iterable[_Union[FragmentReuseIndexDetails.Group, _Mapping]]] = ...) -> None: ...
    class Group(_message.Message):
        __slots__ = ("old_fragments", "new_fragments")
        OLD_FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
        NEW_FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
        old_fragments: _containers.RepeatedCompositeFieldContainer[FragmentReuseIndexDetails.Fragment]
        new_fragments: _containers.RepeatedCompositeFieldContainer[FragmentReuseIndexDetails.Fragment]
        def __init__(self, old_fragments: _Optional[_Iterable[_Union[FragmentReuseIndexDetails.Fragment, _Mapping]]] = ..., new_fragments: _Optional[_Iterable[_Union[FragmentReuseIndexDetails.Fragment, _Mapping]]] = ...) -> None: ...
    class Fragment(_message.Message):
        __slots__ = ("id",)
        ID_FIELD_NUMBER: _ClassVar[int]
        id: int
        def __init__(self, id: _Optional[int] = ...) -> None: ...
    class ExternalFile(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    INLINE_FIELD_NUMBER: _ClassVar[int]
    EXTERNAL_FIELD_NUMBER: _ClassVar[int]
    inline: FragmentReuseIndexDetails.Content
    external: FragmentReuseIndexDetails.ExternalFile
    def __init__(self, inline: _Optional[_Union[FragmentReuseIndexDetails.Content, _Mapping]] = ..., external: _Optional[_Union[FragmentReuseIndexDetails.ExternalFile, _Mapping]] = ...) -> None: ...

class IVF(_message.Message):
    __slots__ = ("offsets", "lengths")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, offsets: _Optional[_Iterable[int]] = ..., lengths: _Optional[_Iterable[int]] = ...) -> None: ...

class JsonIndexDetails(_message.Message):
    __slots__ = ("target_details",)
    TARGET_DETAILS_FIELD_NUMBER: _ClassVar[int]
    target_details: _any_pb2.Any
    def __init__(self, target_details: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...
