from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("scan", "take", "write", "blobs", "aggregate")
    SCAN_FIELD_NUMBER: _ClassVar[int]
    TAKE_FIELD_NUMBER: _ClassVar[int]
    WRITE_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    AGGREGATE_FIELD_NUMBER: _ClassVar[int]
    scan: Scan
    take: Take
    write: Write
    blobs: Blobs
    aggregate: Aggregate
    def __init__(self, scan: _Optional[_Union[Scan, _Mapping]] = ..., take: _Optional[_Union[Take, _Mapping]] = ..., write: _Optional[_Union[Write, _Mapping]] = ..., blobs: _Optional[_Union[Blobs, _Mapping]] = ..., aggregate: _Optional[_Union[Aggregate, _Mapping]] = ...) -> None: ...

class Columns(_message.Message):
    __slots__ = ("names", "expressions")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    expressions: _containers.RepeatedCompositeFieldContainer[Expression]
    def __init__(self, names: _Optional[_Iterable[str]] = ..., expressions: _Optional[_Iterable[_Union[Expression, _Mapping]]] = ...) -> None: ...

class Expression(_message.Message):
    __slots__ = ("name", "sql")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    name: str
    sql: str
    def __init__(self, name: _Optional[str] = ..., sql: _Optional[str] = ...) -> None: ...

class Expressions(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Expression]
    def __init__(self, values: _Optional[_Iterable[_Union[Expression, _Mapping]]] = ...) -> None: ...

class Integers(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class Strings(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class Scan(_message.Message):
    __slots__ = ("dataset", "version", "tag", "asof", "branch", "columns", "filter", "substrait_filter", "limit", "offset", "fragments", "with_row_id", "with_row_address", "batch_rows", "batch_bytes", "rows_per_endpoint", "max_endpoints", "ordered", "compression", "identity", "verify_checksums", "blob_handling", "order_by", "nearest", "prefilter", "fast_search", "use_scalar_index", "split_search", "full_text_query", "hybrid", "search_filter", "index_segments")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    ASOF_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SUBSTRAIT_FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    WITH_ROW_ID_FIELD_NUMBER: _ClassVar[int]
    WITH_ROW_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    BATCH_ROWS_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    MAX_ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    VERIFY_CHECKSUMS_FIELD_NUMBER: _ClassVar[int]
    BLOB_HANDLING_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    NEAREST_FIELD_NUMBER: _ClassVar[int]
    PREFILTER_FIELD_NUMBER: _ClassVar[int]
    FAST_SEARCH_FIELD_NUMBER: _ClassVar[int]
    USE_SCALAR_INDEX_FIELD_NUMBER: _ClassVar[int]
    SPLIT_SEARCH_FIELD_NUMBER: _ClassVar[int]
    FULL_TEXT_QUERY_FIELD_NUMBER: _ClassVar[int]
    HYBRID_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FILTER_FIELD_NUMBER: _ClassVar[int]
    INDEX_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    version: int
    tag: str
    asof: str
    branch: str
    columns: Columns
    filter: str
    substrait_filter: bytes
    limit: int
    offset: int
    fragments: Integers
    with_row_id: bool
    with_row_address: bool
    batch_rows: int
    batch_bytes: int
    rows_per_endpoint: int
    max_endpoints: int
    ordered: bool
    compression: str
    identity: str
    verify_checksums: bool
    blob_handling: str
    order_by: OrderBy
    nearest: Nearest
    prefilter: bool
    fast_search: bool
    use_scalar_index: bool
    split_search: bool
    full_text_query: str
    hybrid: Hybrid
    search_filter: str
    index_segments: Strings
    def __init__(self, dataset: _Optional[str] = ..., version: _Optional[int] = ..., tag: _Optional[str] = ..., asof: _Optional[str] = ..., branch: _Optional[str] = ..., columns: _Optional[_Union[Columns, _Mapping]] = ..., filter: _Optional[str] = ..., substrait_filter: _Optional[bytes] = ..., limit: _Optional[int] = ..., offset: _Optional[int] = ..., fragments: _Optional[_Union[Integers, _Mapping]] = ..., with_row_id: _Optional[bool] = ..., with_row_address: _Optional[bool] = ..., batch_rows: _Optional[int] = ..., batch_bytes: _Optional[int] = ..., rows_per_endpoint: _Optional[int] = ..., max_endpoints: _Optional[int] = ..., ordered: _Optional[bool] = ..., compression: _Optional[str] = ..., identity: _Optional[str] = ..., verify_checksums: _Optional[bool] = ..., blob_handling: _Optional[str] = ..., order_by: _Optional[_Union[OrderBy, _Mapping]] = ..., nearest: _Optional[_Union[Nearest, _Mapping]] = ..., prefilter: _Optional[bool] = ..., fast_search: _Optional[bool] = ..., use_scalar_index: _Optional[bool] = ..., split_search: _Optional[bool] = ..., full_text_query: _Optional[str] = ..., hybrid: _Optional[_Union[Hybrid, _Mapping]] = ..., search_filter: _Optional[str] = ..., index_segments: _Optional[_Union[Strings, _Mapping]] = ...) -> None: ...

class Hybrid(_message.Message):
    __slots__ = ("method", "depth", "weights", "rank_constant")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    RANK_CONSTANT_FIELD_NUMBER: _ClassVar[int]
    method: str
    depth: int
    weights: Weights
    rank_constant: float
    def __init__(self, method: _Optional[str] = ..., depth: _Optional[int] = ..., weights: _Optional[_Union[Weights, _Mapping]] = ..., rank_constant: _Optional[float] = ...) -> None: ...

class Weights(_message.Message):
    __slots__ = ("vector", "text")
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    vector: float
    text: float
    def __init__(self, vector: _Optional[float] = ..., text: _Optional[float] = ...) -> None: ...

class Nearest(_message.Message):
    __slots__ = ("column", "q", "queries", "k", "metric", "nprobes", "minimum_nprobes", "maximum_nprobes", "refine_factor", "ef", "use_index", "distance_range", "search_effort", "approx_mode")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    Q_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    NPROBES_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_NPROBES_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_NPROBES_FIELD_NUMBER: _ClassVar[int]
    REFINE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    EF_FIELD_NUMBER: _ClassVar[int]
    USE_INDEX_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_RANGE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_EFFORT_FIELD_NUMBER: _ClassVar[int]
    APPROX_MODE_FIELD_NUMBER: _ClassVar[int]
    column: str
    q: QueryVector
    queries: QueryVectors
    k: int
    metric: str
    nprobes: int
    minimum_nprobes: int
    maximum_nprobes: int
    refine_factor: int
    ef: int
    use_index: bool
    distance_range: DistanceRange
    search_effort: float
    approx_mode: str
    def __init__(self, column: _Optional[str] = ..., q: _Optional[_Union[QueryVector, _Mapping]] = ..., queries: _Optional[_Union[QueryVectors, _Mapping]] = ..., k: _Optional[int] = ..., metric: _Optional[str] = ..., nprobes: _Optional[int] = ..., minimum_nprobes: _Optional[int] = ..., maximum_nprobes: _Optional[int] = ..., refine_factor: _Optional[int] = ..., ef: _Optional[int] = ..., use_index: _Optional[bool] = ..., distance_range: _Optional[_Union[DistanceRange, _Mapping]] = ..., search_effort: _Optional[float] = ..., approx_mode: _Optional[str] = ...) -> None: ...

class QueryVector(_message.Message):
    __slots__ = ("values", "data")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    data: bytes
    def __init__(self, values: _Optional[_Iterable[float]] = ..., data: _Optional[bytes] = ...) -> None: ...

class QueryVectors(_message.Message):
    __slots__ = ("vectors",)
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    vectors: _containers.RepeatedCompositeFieldContainer[QueryVector]
    def __init__(self, vectors: _Optional[_Iterable[_Union[QueryVector, _Mapping]]] = ...) -> None: ...

class DistanceRange(_message.Message):
    __slots__ = ("lower", "upper")
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    lower: float
    upper: float
    def __init__(self, lower: _Optional[float] = ..., upper: _Optional[float] = ...) -> None: ...

class Ordering(_message.Message):
    __slots__ = ("column", "ascending", "nulls_first")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    ASCENDING_FIELD_NUMBER: _ClassVar[int]
    NULLS_FIRST_FIELD_NUMBER: _ClassVar[int]
    column: str
    ascending: bool
    nulls_first: bool
    def __init__(self, column: _Optional[str] = ..., ascending: _Optional[bool] = ..., nulls_first: _Optional[bool] = ...) -> None: ...

class OrderBy(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Ordering]
    def __init__(self, values: _Optional[_Iterable[_Union[Ordering, _Mapping]]] = ...) -> None: ...

class Aggregate(_message.Message):
    __slots__ = ("dataset", "version", "tag", "asof", "branch", "filter", "substrait_filter", "group_by", "aggregates", "identity")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    ASOF_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SUBSTRAIT_FILTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_FIELD_NUMBER: _ClassVar[int]
    AGGREGATES_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    version: int
    tag: str
    asof: str
    branch: str
    filter: str
    substrait_filter: bytes
    group_by: Columns
    aggregates: Expressions
    identity: str
    def __init__(self, dataset: _Optional[str] = ..., version: _Optional[int] = ..., tag: _Optional[str] = ..., asof: _Optional[str] = ..., branch: _Optional[str] = ..., filter: _Optional[str] = ..., substrait_filter: _Optional[bytes] = ..., group_by: _Optional[_Union[Columns, _Mapping]] = ..., aggregates: _Optional[_Union[Expressions, _Mapping]] = ..., identity: _Optional[str] = ...) -> None: ...

class Take(_message.Message):
    __slots__ = ("dataset", "version", "tag", "branch", "columns", "offsets", "row_ids", "row_addresses", "identity", "blob_handling")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROW_IDS_FIELD_NUMBER: _ClassVar[int]
    ROW_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    BLOB_HANDLING_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    version: int
    tag: str
    branch: str
    columns: Columns
    offsets: Integers
    row_ids: Integers
    row_addresses: Integers
    identity: str
    blob_handling: str
    def __init__(self, dataset: _Optional[str] = ..., version: _Optional[int] = ..., tag: _Optional[str] = ..., branch: _Optional[str] = ..., columns: _Optional[_Union[Columns, _Mapping]] = ..., offsets: _Optional[_Union[Integers, _Mapping]] = ..., row_ids: _Optional[_Union[Integers, _Mapping]] = ..., row_addresses: _Optional[_Union[Integers, _Mapping]] = ..., identity: _Optional[str] = ..., blob_handling: _Optional[str] = ...) -> None: ...

class Blobs(_message.Message):
    __slots__ = ("dataset", "version", "tag", "branch", "identity", "column", "offsets", "row_ids", "row_addresses", "ranges", "with_size", "with_row_address")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    ROW_IDS_FIELD_NUMBER: _ClassVar[int]
    ROW_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    WITH_SIZE_FIELD_NUMBER: _ClassVar[int]
    WITH_ROW_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    version: int
    tag: str
    branch: str
    identity: str
    column: str
    offsets: Integers
    row_ids: Integers
    row_addresses: Integers
    ranges: Ranges
    with_size: bool
    with_row_address: bool
    def __init__(self, dataset: _Optional[str] = ..., version: _Optional[int] = ..., tag: _Optional[str] = ..., branch: _Optional[str] = ..., identity: _Optional[str] = ..., column: _Optional[str] = ..., offsets: _Optional[_Union[Integers, _Mapping]] = ..., row_ids: _Optional[_Union[Integers, _Mapping]] = ..., row_addresses: _Optional[_Union[Integers, _Mapping]] = ..., ranges: _Optional[_Union[Ranges, _Mapping]] = ..., with_size: _Optional[bool] = ..., with_row_address: _Optional[bool] = ...) -> None: ...

class Range(_message.Message):
    __slots__ = ("start", "length")
    START_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    start: int
    length: int
    def __init__(self, start: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class Ranges(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Range]
    def __init__(self, values: _Optional[_Iterable[_Union[Range, _Mapping]]] = ...) -> None: ...

class Write(_message.Message):
    __slots__ = ("dataset", "branch", "mode", "on", "when_matched", "when_matched_condition", "when_not_matched", "when_not_matched_by_source", "when_not_matched_by_source_condition", "fragment_id", "stage", "data_storage_version", "max_rows_per_file", "max_bytes_per_file", "enable_stable_row_ids", "transaction_id", "properties", "report_bytes")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DATASET_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    WHEN_MATCHED_FIELD_NUMBER: _ClassVar[int]
    WHEN_MATCHED_CONDITION_FIELD_NUMBER: _ClassVar[int]
    WHEN_NOT_MATCHED_FIELD_NUMBER: _ClassVar[int]
    WHEN_NOT_MATCHED_BY_SOURCE_FIELD_NUMBER: _ClassVar[int]
    WHEN_NOT_MATCHED_BY_SOURCE_CONDITION_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DATA_STORAGE_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_PER_FILE_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_PER_FILE_FIELD_NUMBER: _ClassVar[int]
    ENABLE_STABLE_ROW_IDS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    REPORT_BYTES_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    branch: str
    mode: str
    on: Strings
    when_matched: str
    when_matched_condition: str
    when_not_matched: str
    when_not_matched_by_source: str
    when_not_matched_by_source_condition: str
    fragment_id: int
    stage: bool
    data_storage_version: str
    max_rows_per_file: int
    max_bytes_per_file: int
    enable_stable_row_ids: bool
    transaction_id: str
    properties: _containers.ScalarMap[str, str]
    report_bytes: int
    def __init__(self, dataset: _Optional[str] = ..., branch: _Optional[str] = ..., mode: _Optional[str] = ..., on: _Optional[_Union[Strings, _Mapping]] = ..., when_matched: _Optional[str] = ..., when_matched_condition: _Optional[str] = ..., when_not_matched: _Optional[str] = ..., when_not_matched_by_source: _Optional[str] = ..., when_not_matched_by_source_condition: _Optional[str] = ..., fragment_id: _Optional[int] = ..., stage: _Optional[bool] = ..., data_storage_version: _Optional[str] = ..., max_rows_per_file: _Optional[int] = ..., max_bytes_per_file: _Optional[int] = ..., enable_stable_row_ids: _Optional[bool] = ..., transaction_id: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., report_bytes: _Optional[int] = ...) -> None: ...
