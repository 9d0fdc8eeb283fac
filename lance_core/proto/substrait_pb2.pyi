from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExtendedExpression(_message.Message):
    __slots__ = ("extensions", "referred_expr", "base_schema")
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    REFERRED_EXPR_FIELD_NUMBER: _ClassVar[int]
    BASE_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    extensions: _containers.RepeatedCompositeFieldContainer[SimpleExtensionDeclaration]
    referred_expr: _containers.RepeatedCompositeFieldContainer[ExpressionReference]
    base_schema: NamedStruct
    def __init__(self, extensions: _Optional[_Iterable[_Union[SimpleExtensionDeclaration, _Mapping]]] = ..., referred_expr: _Optional[_Iterable[_Union[ExpressionReference, _Mapping]]] = ..., base_schema: _Optional[_Union[NamedStruct, _Mapping]] = ...) -> None: ...

class ExpressionReference(_message.Message):
    __slots__ = ("expression", "measure")
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    MEASURE_FIELD_NUMBER: _ClassVar[int]
    expression: bytes
    measure: bytes
    def __init__(self, expression: _Optional[bytes] = ..., measure: _Optional[bytes] = ...) -> None: ...

class SimpleExtensionDeclaration(_message.Message):
    __slots__ = ("extension_type", "extension_function")
    class ExtensionType(_message.Message):
        __slots__ = ("type_anchor", "name")
        TYPE_ANCHOR_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        type_anchor: int
        name: str
        def __init__(self, type_anchor: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...
    class ExtensionFunction(_message.Message):
        __slots__ = ("function_anchor", "name")
        FUNCTION_ANCHOR_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        function_anchor: int
        name: str
        def __init__(self, function_anchor: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...
    EXTENSION_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_FUNCTION_FIELD_NUMBER: _ClassVar[int]
    extension_type: SimpleExtensionDeclaration.ExtensionType
    extension_function: SimpleExtensionDeclaration.ExtensionFunction
    def __init__(self, extension_type: _Optional[_Union[SimpleExtensionDeclaration.ExtensionType, _Mapping]] = ..., extension_function: _Optional[_Union[SimpleExtensionDeclaration.ExtensionFunction, _Mapping]] = ...) -> None: ...

class NamedStruct(_message.Message):
    __slots__ = ("names", "struct")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    STRUCT_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    struct: Type.Struct
    def __init__(self, names: _Optional[_Iterable[str]] = ..., struct: _Optional[_Union[Type.Struct, _Mapping]] = ...) -> None: ...

class Type(_message.Message):
    __slots__ = ("bool", "i8", "i16", "i32", "i64", "fp32", "fp64", "string", "binary", "timestamp", "date", "time", "fixed_char", "varchar", "fixed_binary", "decimal", "struct", "list", "map", "timestamp_tz", "user_defined", "precision_timestamp", "precision_timestamp_tz", "precision_time")
    class Plain(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Struct(_message.Message):
        __slots__ = ("types",)
        TYPES_FIELD_NUMBER: _ClassVar[int]
        types: _containers.RepeatedCompositeFieldContainer[Type]
        def __init__(self, types: _Optional[_Iterable[_Union[Type, _Mapping]]] = ...) -> None: ...
    class List(_message.Message):
        __slots__ = ("type",)
        TYPE_FIELD_NUMBER: _ClassVar[int]
        type: Type
        def __init__(self, type: _Optional[_Union[Type, _Mapping]] = ...) -> None: ...
    class Map(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: Type
        value: Type
        def __init__(self, key: _Optional[_Union[Type, _Mapping]] = ..., value: _Optional[_Union[Type, _Mapping]] = ...) -> None: ...
    class Decimal(_message.Message):
        __slots__ = ("scale", "precision")
        SCALE_FIELD_NUMBER: _ClassVar[int]
        PRECISION_FIELD_NUMBER: _ClassVar[int]
        scale: int
        precision: int
        def __init__(self, scale: _Optional[int] = ..., precision: _Optional[int] = ...) -> None: ...
    class Precision(_message.Message):
        __slots__ = ("precision",)
        PRECISION_FIELD_NUMBER: _ClassVar[int]
        precision: int
        def __init__(self, precision: _Optional[int] = ...) -> None: ...
    class Length(_message.Message):
        __slots__ = ("length",)
        LENGTH_FIELD_NUMBER: _ClassVar[int]
        length: int
        def __init__(self, length: _Optional[int] = ...) -> None: ...
    class UserDefined(_message.Message):
        __slots__ = ("type_reference",)
        TYPE_REFERENCE_FIELD_NUMBER: _ClassVar[int]
        type_reference: int
        def __init__(self, type_reference: _Optional[int] = ...) -> None: ...
    BOOL_FIELD_NUMBER: _ClassVar[int]
    I8_FIELD_NUMBER: _ClassVar[int]
    I16_FIELD_NUMBER: _ClassVar[int]
    I32_FIELD_NUMBER: _ClassVar[int]
    I64_FIELD_NUMBER: _ClassVar[int]
    FP32_FIELD_NUMBER: _ClassVar[int]
    FP64_FIELD_NUMBER: _ClassVar[int]
    STRING_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    FIXED_CHAR_FIELD_NUMBER: _ClassVar[int]
    VARCHAR_FIELD_NUMBER: _ClassVar[int]
    FIXED_BINARY_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_FIELD_NUMBER: _ClassVar[int]
    STRUCT_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_TZ_FIELD_NUMBER: _ClassVar[int]
    USER_DEFINED_FIELD_NUMBER: _ClassVar[int]
    PRECISION_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    PRECISION_TIMESTAMP_TZ_FIELD_NUMBER: _ClassVar[int]
    PRECISION_TIME_FIELD_NUMBER: _ClassVar[int]
    bool: Type.Plain
    i8: Type.Plain
    i16: Type.Plain
    i32: Type.Plain
    i64: Type.Plain
    fp32: Type.Plain
    fp64: Type.Plain
    string: Type.Plain
    binary: Type.Plain
    timestamp: Type.Plain
    date: Type.Plain
    time: Type.Plain
    fixed_char: Type.Length
    varchar: Type.Length
    fixed_binary: Type.Length
    decimal: Type.Decimal
    struct: Type.Struct
    list: Type.List
    map: Type.Map
    timestamp_tz: Type.Plain
    user_defined: Type.UserDefined
    precision_timestamp: Type.Precision
    precision_timestamp_tz: Type.Precision
    precision_time: Type.Precision
    def __init__(self, bool: _Optional[_Union[Type.Plain, _Mapping]] = ..., i8: _Optional[_Union[Type.Plain, _Mapping]] = ..., i16: _Optional[_Union[Type.Plain, _Mapping]] = ..., i32: _Optional[_Union[Type.Plain, _Mapping]] = ..., i64: _Optional[_Union[Type.Plain, _Mapping]] = ..., fp32: _Optional[_Union[Type.Plain, _Mapping]] = ..., fp64: _Optional[_Union[Type.Plain, _Mapping]] = ..., string: _Optional[_Union[Type.Plain, _Mapping]] = ..., binary: _Optional[_Union[Type.Plain, _Mapping]] = ..., timestamp: _Optional[_Union[Type.Plain, _Mapping]] = ..., date: _Optional[_Union[Type.Plain, _Mapping]] = ..., time: _Optional[_Union[Type.Plain, _Mapping]] = ..., fixed_char: _Optional[_Union[Type.Length, _Mapping]] = ..., varchar: _Optional[_Union[Type.Length, _Mapping]] = ..., fixed_binary: _Optional[_Union[Type.Length, _Mapping]] = ..., decimal: _Optional[_Union[Type.Decimal, _Mapping]] = ..., struct: _Optional[_Union[Type.Struct, _Mapping]] = ..., list: _Optional[_Union[Type.List, _Mapping]] = ..., map: _Optional[_Union[Type.Map, _Mapping]] = ..., timestamp_tz: _Optional[_Union[Type.Plain, _Mapping]] = ..., user_defined: _Optional[_Union[Type.UserDefined, _Mapping]] = ..., precision_timestamp: _Optional[_Union[Type.Precision, _Mapping]] = ..., precision_timestamp_tz: _Optional[_Union[Type.Precision, _Mapping]] = ..., precision_time: _Optional[_Union[Type.Precision, _Mapping]] = ...) -> None: ...

class Literal(_message.Message):
    __slots__ = ("boolean", "i8", "i16", "i32", "i64", "fp32", "fp64", "string", "binary", "timestamp", "date", "time", "fixed_char", "var_char", "fixed_binary", "decimal", "timestamp_tz", "null", "user_defined", "precision_timestamp", "precision_timestamp_tz", "precision_time")
    class VarChar(_message.Message):
        __slots__ = ("value",)
        VALUE_FIELD_NUMBER: _ClassVar[int]
        value: str
        def __init__(self, value: _Optional[str] = ...) -> None: ...
    class Decimal(_message.Message):
        __slots__ = ("value", "precision", "scale")
        VALUE_FIELD_NUMBER: _ClassVar[int]
        PRECISION_FIELD_NUMBER: _ClassVar[int]
        SCALE_FIELD_NUMBER: _ClassVar[int]
        value: bytes
        precision: int
        scale: int
        def __init__(self, value: _Optional[bytes] = ..., precision: _Optional[int] = ..., scale: _Optional[int] = ...) -> None: ...
    class Precision(_message.Message):
        __slots__ = ("precision", "value")
        PRECISION_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        precision: int
        value: int
        def __init__(self, precision: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class Any(_message.Message):
        __slots__ = ("type_url", "value")
        TYPE_URL_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        type_url: str
        value: bytes
        def __init__(self, type_url: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class UserDefined(_message.Message):
        __slots__ = ("type_reference", "value")
        TYPE_REFERENCE_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        type_reference: int
        value: Literal.Any
        def __init__(self, type_reference: _Optional[int] = ..., value: _Optional[_Union[Literal.Any, _Mapping]] = ...) -> None: ...
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    I8_FIELD_NUMBER: _ClassVar[int]
    I16_FIELD_NUMBER: _ClassVar[int]
    I32_FIELD_NUMBER: _ClassVar[int]
    I64_FIELD_NUMBER: _ClassVar[int]
    FP32_FIELD_NUMBER: _ClassVar[int]
    FP64_FIELD_NUMBER: _ClassVar[int]
    STRING_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    FIXED_CHAR_FIELD_NUMBER: _ClassVar[int]
    VAR_CHAR_FIELD_NUMBER: _ClassVar[int]
    FIXED_BINARY_FIELD_NUMBER: _ClassVar[int]
    DECIMAL_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_TZ_FIELD_NUMBER: _ClassVar[int]
    NULL_FIELD_NUMBER: _ClassVar[int]
    USER_DEFINED_FIELD_NUMBER: _ClassVar[int]
    PRECISION_TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    PRECISION_TIMESTAMP_TZ_FIELD_NUMBER: _ClassVar[int]
    PRECISION_TIME_FIELD_NUMBER: _ClassVar[int]
    boolean: bool
    i8: int
    i16: int
    i32: int
    i64: int
    fp32: float
    fp64: float
    string: str
    binary: bytes
    timestamp: int
    date: int
    time: int
    fixed_char: str
    var_char: Literal.VarChar
    fixed_binary: bytes
    decimal: Literal.Decimal
    timestamp_tz: int
    null: Type
    user_defined: Literal.UserDefined
    precision_timestamp: Literal.Precision
    precision_timestamp_tz: Literal.Precision
    precision_time: Literal.Precision
    def __init__(self, boolean: _Optional[bool] = ..., i8: _Optional[int] = ..., i16: _Optional[int] = ..., i32: _Optional[int] = ..., i64: _Optional[int] = ..., fp32: _Optional[float] = ..., fp64: _Optional[float] = ..., string: _Optional[str] = ..., binary: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., date: _Optional[int] = ..., time: _Optional[int] = ..., fixed_char: _Optional[str] = ..., var_char: _Optional[_Union[Literal.VarChar, _Mapping]] = ..., fixed_binary: _Optional[bytes] = ..., decimal: _Optional[_Union[Literal.Decimal, _Mapping]] = ..., timestamp_tz: _Optional[int] = ..., null: _Optional[_Union[Type, _Mapping]] = ..., user_defined: _Optional[_Union[Literal.UserDefined, _Mapping]] = ..., precision_timestamp: _Optional[_Union[Literal.Precision, _Mapping]] = ..., precision_timestamp_tz: _Optional[_Union[Literal.Precision, _Mapping]] = ..., precision_time: _Optional[_Union[Literal.Precision, _Mapping]] = ...) -> None: ...

class Expression(_message.Message):
    __slots__ = ("literal", "selection", "scalar_function", "if_then", "singular_or_list", "cast")
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    SCALAR_FUNCTION_FIELD_NUMBER: _ClassVar[int]
    IF_THEN_FIELD_NUMBER: _ClassVar[int]
    SINGULAR_OR_LIST_FIELD_NUMBER: _ClassVar[int]
    CAST_FIELD_NUMBER: _ClassVar[int]
    literal: Literal
    selection: FieldReference
    scalar_function: ScalarFunction
    if_then: IfThen
    singular_or_list: SingularOrList
    cast: Cast
    def __init__(self, literal: _Optional[_Union[Literal, _Mapping]] = ..., selection: _Optional[_Union[FieldReference, _Mapping]] = ..., scalar_function: _Optional[_Union[ScalarFunction, _Mapping]] = ..., if_then: _Optional[_Union[IfThen, _Mapping]] = ..., singular_or_list: _Optional[_Union[SingularOrList, _Mapping]] = ..., cast: _Optional[_Union[Cast, _Mapping]] = ...) -> None: ...

class FieldReference(_message.Message):
    __slots__ = ("direct_reference", "expression", "root_reference")
    class Root(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    DIRECT_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    ROOT_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    direct_reference: ReferenceSegment
    expression: bytes
    root_reference: FieldReference.Root
    def __init__(self, direct_reference: _Optional[_Union[ReferenceSegment, _Mapping]] = ..., expression: _Optional[bytes] = ..., root_reference: _Optional[_Union[FieldReference.Root, _Mapping]] = ...) -> None: ...

class ReferenceSegment(_message.Message):
    __slots__ = ("struct_field", "list_element")
    class StructField(_message.Message):
        __slots__ = ("field", "child")
        FIELD_FIELD_NUMBER: _ClassVar[int]
        CHILD_FIELD_NUMBER: _ClassVar[int]
        field: int
        child: ReferenceSegment
        def __init__(self, field: _Optional[int] = ..., child: _Optional[_Union[ReferenceSegment, _Mapping]] = ...) -> None: ...
    class ListElement(_message.Message):
        __slots__ = ("offset", "child")
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        CHILD_FIELD_NUMBER: _ClassVar[int]
        offset: int
        child: ReferenceSegment
        def __init__(self, offset: _Optional[int] = ..., child: _Optional[_Union[ReferenceSegment, _Mapping]] = ...) -> None: ...
    STRUCT_FIELD_FIELD_NUMBER: _ClassVar[int]
    LIST_ELEMENT_FIELD_NUMBER: _ClassVar[int]
    struct_field: ReferenceSegment.StructField
    list_element: ReferenceSegment.ListElement
    def __init__(self, struct_field: _Optional[_Union[ReferenceSegment.StructField, _Mapping]] = ..., list_element: _Optional[_Union[ReferenceSegment.ListElement, _Mapping]] = ...) -> None: ...

class ScalarFunction(_message.Message):
    __slots__ = ("function_reference", "args", "arguments", "options")
    FUNCTION_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    function_reference: int
    args: _containers.RepeatedScalarFieldContainer[bytes]
    arguments: _containers.RepeatedCompositeFieldContainer[FunctionArgument]
    options: _containers.RepeatedCompositeFieldContainer[FunctionOption]
    def __init__(self, function_reference: _Optional[int] = ..., args: _Optional[_Iterable[bytes]] = ..., arguments: _Optional[_Iterable[_Union[FunctionArgument, _Mapping]]] = ..., options: _Optional[_Iterable[_Union[FunctionOption, _Mapping]]] = ...) -> None: ...

class FunctionArgument(_message.Message):
    __slots__ = ("enum", "type", "value")
    ENUM_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    enum: str
    type: Type
    value: bytes
    def __init__(self, enum: _Optional[str] = ..., type: _Optional[_Union[Type, _Mapping]] = ..., value: _Optional[bytes] = ...) -> None: ...

class FunctionOption(_message.Message):
    __slots__ = ("name", "preference")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    preference: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., preference: _Optional[_Iterable[str]] = ...) -> None: ...

class IfThen(_message.Message):
    __slots__ = ("ifs",)
    class IfClause(_message.Message):
        __slots__ = ("then",)
        IF_FIELD_NUMBER: _ClassVar[int]
        THEN_FIELD_NUMBER: _ClassVar[int]
        then: bytes
        def __init__(self, then: _Optional[bytes] = ..., **kwargs) -> None: ...
    IFS_FIELD_NUMBER: _ClassVar[int]
    ELSE_FIELD_NUMBER: _ClassVar[int]
    ifs: _containers.RepeatedCompositeFieldContainer[IfThen.IfClause]
    def __init__(self, ifs: _Optional[_Iterable[_Union[IfThen.IfClause, _Mapping]]] = ..., **kwargs) -> None: ...

class SingularOrList(_message.Message):
    __slots__ = ("value", "options")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    options: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, value: _Optional[bytes] = ..., options: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Cast(_message.Message):
    __slots__ = ("type", "input", "failure_behavior")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_BEHAVIOR_FIELD_NUMBER: _ClassVar[int]
    type: Type
    input: bytes
    failure_behavior: int
    def __init__(self, type: _Optional[_Union[Type, _Mapping]] = ..., input: _Optional[bytes] = ..., failure_behavior: _Optional[int] = ...) -> None: ...
