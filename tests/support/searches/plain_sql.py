"""Texts of filters and expressions on a table of common types, sorted by what the reference makes of them.

The tests run each through both libraries; nothing is expected here but that both agree, or that both refuse.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

NAN, INF = float("nan"), float("inf")

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, None, -5], pa.int32()),
        "i8": pa.array([1, 127, -128, None, 7], pa.int8()),
        "u8": pa.array([1, 255, 0, None, 7], pa.uint8()),
        "big": pa.array([1, 2**63 - 1, -(2**63), None, 7], pa.int64()),
        "u64": pa.array([1, 2**64 - 1, 0, None, 7], pa.uint64()),
        "x": pa.array([1.5, NAN, -0.0, None, INF], pa.float64()),
        "f": pa.array([1.5, NAN, -0.0, None, INF], pa.float32()),
        "s": pa.array(["abc", "", "ABC", None, "a%b_c"]),
        "Name": pa.array(["abc", "", "ABC", None, "a%b_c"]),
        "b": pa.array([True, False, True, None, False]),
        "d": pa.array(
            [dt.date(2020, 1, 1), dt.date(1970, 1, 1), dt.date(1969, 1, 1), None, dt.date(2021, 2, 3)]
        ),
        "ts": pa.array([0, 10**6, -1, None, 1577836800 * 10**6], pa.timestamp("us")),
        "tz": pa.array([0, 10**6, -1, None, 1577836800 * 10**6], pa.timestamp("us", "UTC")),
        "dec": pa.array(
            [Decimal("1.50"), Decimal("2.00"), Decimal("-1.25"), None, Decimal("0")], pa.decimal128(10, 2)
        ),
        "bin": pa.array([b"abc", b"", b"\x00\xff", None, b"z"]),
        "l": pa.array([[1, 2], [], [None, 3], None, [5]], pa.list_(pa.int32())),
        "st": pa.array(
            [{"a": 1, "B": "x"}, {"a": None, "B": "y"}, None, {"a": 3, "B": None}, {"a": 4, "B": "z"}]
        ),
        "dict": pa.array(["abc", "", "ABC", None, "abc"]).dictionary_encode(),
        "a b": pa.array([1, 2, 3, 4, 5]),
    }
)

FILTERS = r"""
ID = 1
NAME = 'abc'
`Name` = 'abc'
s = "abc"
`a b` = 2
st.a = 1
st.B = 'x'
x > 5
x >= 1.5
x < 5
x <= 1.5
x = 0
x = -0.0
x in (0.0)
x in (-0.0, 1.5)
x not in (-0.0, 1.5)
x != 0.0
x != 1.5
not (x > 1)
x > f
x = f
not (i8 = 300)
not (i8 < 300)
u64 = 18446744073709551615
not (id = '1')
not (d = '2020-01-01')
not (ts <> '1970-01-01 00:00:01')
dec > 1
not (dec > 1.4)
b
not b
b = true
b is true
b is not false
b is null
bin = x'616263'
bin = X'00ff'
l is null
st is null
st.a is null
dict = 'abc'
dict in ('abc','')
dict > 'a'
dict is null
id in (1,2,null)
id not in (1,2,null)
id not in (1,2)
id between 1 and 2
id not between 1 and 2
id is distinct from 1
id is not distinct from null
id = null
true
1 = 1
x > id
i8 > u64
s = bin
id = 1 or s = 'abc' and b
s like 'a%'
id = 1 + 1
id + 1 = 3
id / 2 = 1
id % 2 = 1
i8 < i8 * 2
u8 < 2 * u8
i8 < (u8 + 300) and b
st.a < id * 0.75
dec < id * 1.125
i8 = 50 * 2
i8 < abs(7) + 300
id < cast(7 as int) * 0.25
i8 between i8 - 1 and 100
""".strip().split("\n")
"""Filters that pass the same rows."""

EXPRESSIONS = r"""
id / 2
id % 2
i8 + (i8 * 2)
u8 + u8 / 2
f + (f * 1.5)
-id
id + 1
id * 1000000000
i8 + 1
i8 + i8
i8 * i8
big + 1
u8 - 1
u8 + i8
big + u64
x + 1
f + 1
f + x
f / 2
x / 0
x % 2
u64 % 7
big % (u64 + 1)
u64 % (big * 2 + 1)
dec % 1
dec % (i8 * 2 + 1)
(big * 2 + 1) % (dec + 100)
u64 % (dec + 100)
id % (u64 + 1)
i8 * u64
u64 / (i8 * 2 + 1)
dec + 1
dec * 2
dec * dec
dec / 2
d - d
ts - ts
s || 'x'
concat(s, 'x', id)
s || id
lower(s)
upper(s)
length(s)
char_length(s)
character_length(s)
octet_length(s)
replace(s, 'a', 'x')
ltrim(s)
rtrim(s)
btrim(s)
reverse(s)
lpad(s, 5, 'x')
repeat(s, 2)
strpos(s, 'b')
split_part(s, 'b', 1)
split_part(s, 'b', -1)
split_part(s, 'b', -2)
split_part(s, 'b', 3)
split_part(s, '', 1)
split_part(s, 'b', 2147483648)
split_part(s, 'b', 9223372036854775807)
split_part(s, 'b', -9223372036854775807)
split_part(s, '', -2)
split_part(s, NULL, 1)
replace(s, '', '-')
replace(s, '', '\1')
initcap(s)
starts_with(s, 'a')
ends_with(s, 'c')
contains(s, 'b')
regexp_like(s, '^a')
regexp_replace(s, 'a', 'x')
regexp_count(s, 'a')
abs(id)
abs(x)
round(x)
round(x, 1)
sqrt(x)
ln(x)
log(x)
log10(x)
log2(x)
log(2, x)
exp(x)
power(x, 2)
pow(id, 2)
power(id, 2)
sin(x)
cos(x)
tan(x)
asin(x)
atan(x)
atan2(x, 1)
sinh(x)
signum(x)
isnan(x)
iszero(x)
nanvl(x, 0.0)
cbrt(x)
degrees(x)
coalesce(id, 0)
nullif(id, 1)
greatest(id, 2)
least(id, 2)
nvl(id, 0)
ifnull(id, 0)
nvl2(id, 1, 2)
date_part('year', d)
date_trunc('month', ts)
date_trunc('month', d)
date_trunc('hour', tz)
to_timestamp(id)
to_unixtime(ts)
from_unixtime(id)
array_length(l)
cardinality(l)
list_length(l)
array_contains(l, 2)
array_has(l, 2)
array_has_any(l, [2, 3])
array_has_all(l, [2, 3])
list_contains(l, 2)
array_has_any(l, make_array(2, 3))
l[1]
l[0]
l[-1]
array_element(l, 1)
list_extract(l, 1)
array_position(l, 2)
array_max(l)
empty(l)
st.a
st.a + 1
st['a']
st['B'] || 'x'
get_field(st, 'a')
cast(id as string)
cast(id as bigint)
cast(id as int)
cast(id as smallint)
cast(id as tinyint)
cast(id as double)
cast(id as float)
cast(id as boolean)
cast(id as decimal(10,2))
try_cast(s as int)
cast(s as binary)
cast(d as timestamp)
cast(ts as date)
cast(ts as string)
cast(d as string)
cast(x as string)
cast(b as int)
cast(b as string)
cast(dec as double)
cast(dec as int)
id::bigint
id::string
b and b
not b
id > 1
s like 'a%'
id is null
id in (1,2)
id between 1 and 2
id is distinct from 1
dict
dict || 'x'
bin || bin
x'ab' || bin
- - id
id == 1
id <> 1
bit_length(s)
""".strip().split("\n")
"""Expressions with the same values, type and nullability."""

REFUSED = r"""
`name` = 'abc'
ST.A = 1
x = 'NaN'
i8 = 300
i8 > -1000
i8 = 1.5
u8 = -1
big < 9223372036854775808
id = '1'
s = 1
d = '2020-01-01'
id
null
id = s
nocol = 1
nam = 1
id =
(id = 1
id = 'a
a; b
(select 1)
exists (select 1)
id in (select 1)
id / 0 = 1
id + 1.5
id % 0
dec + 1.5
-u8
d + 1
s ~ '^a'
s ~* '^a'
s !~ '^a'
to_timestamp(s)
cast(id as int unsigned)
cast(id as tinyint unsigned)
cast(x as int)
cast(s as int)
id & 1
id | 1
id ^ 1
~id
sum(id)
count(*)
foo(id)
a.b.c
nocol
overlay(s placing 'x' from 1)
""".strip().split("\n")
"""Texts that neither takes."""
