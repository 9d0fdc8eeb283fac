"""Texts of filters and expressions on a table of many types, sorted as in `plain_sql`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

NAN, INF = float("nan"), float("inf")

TABLE = pa.table(
    {
        "a": pa.array([1, -7, None], pa.int32()),
        "A": pa.array([10, 20, 30], pa.int32()),
        "i8": pa.array([-128, 5, None], pa.int8()),
        "u8": pa.array([200, 5, None], pa.uint8()),
        "u64": pa.array([2**64 - 1, 5, None], pa.uint64()),
        "i64": pa.array([-(2**63), -7, None], pa.int64()),
        "f16": pa.array(np.array([1.5, NAN, -0.0], np.float16)),
        "f32": pa.array([1.5, NAN, None], pa.float32()),
        "f64": pa.array([-2.5, 2.5, None], pa.float64()),
        "g": pa.array([3.5, INF, -0.0], pa.float64()),
        "s": pa.array(["a%b", "A_\\b\nx", None]),
        "ls": pa.array(["é x", "ß", None], pa.large_string()),
        "num": pa.array(["1", " 2", "1.5"]),
        "d": pa.array([dt.date(2020, 2, 29), dt.date(1969, 12, 31), None]),
        "ts": pa.array([1582934399123456, -1, None], pa.timestamp("us")),
        "tsns": pa.array([1582934399123456789, -1, None], pa.timestamp("ns")),
        "tz": pa.array([1582934399123456, -1, None], pa.timestamp("us", "Europe/Berlin")),
        "t": pa.array([3723000000, 1, None], pa.time64("us")),
        "dec": pa.array([Decimal("12.345"), Decimal("-0.005"), None], pa.decimal128(10, 3)),
        "bin": pa.array([b"\xff\x00", b"", None]),
        "l": pa.array([[1, 2, None], [], None], pa.list_(pa.int32())),
        "ll": pa.array([[[1], []], [[2, 3]], None]),
        "lst": pa.array([[{"x": 1}], [], None]),
        "ls_": pa.array([["a", "b"], ["c"], None]),
        "fsl": pa.array([[1, 2], [3, 4], None], pa.list_(pa.float32(), 2)),
        "st": pa.array([{"a": {"b": 1}}, {"a": None}, None]),
        "b": pa.array([True, False, None]),
        "dur": pa.array([1, 2, None], pa.duration("us")),
    }
)

FILTERS = r"""
a = 1
A = 10
f16 = -0.0
f16 > 1
s like 'a\%b'
s like 'a%'
s like 'a_b'
s like 'a\_b'
s like 'A%x'
s like 'A\_\\b%'
s ilike 'A\%B'
s ilike 'a%'
ls ilike 'É%'
ls ilike 'ẞ'
ls ilike 'ss'
s like null
s not like 'a%'
dec = 12
dec in (12, 1)
not (dec in (12.345))
not (a in (1, 1.5))
a in (a, 2)
a + 1 in (2, 3)
st.a.b = 1
st.a.b in (1)
st.a.b in (1.0)
st['a']['b'] = 1
st.a['b'] = 1
`st`.a.b = 1
st.`a`.b = 1
l[1] = 1
l[1] = 1.5
l[2] + 1 = 3
ll[1][1] = 1
lst[1].x = 1
lst[1]['x'] = 1
array_length(l) > 1
regexp_match(s, 'a')
not regexp_match(s, 'a')
regexp_match(s, 'a') is null
ts > timestamp '2020-01-01'
ts = timestamp '2020-02-28 23:59:59.123456'
tz = timestamp '2020-02-28 23:59:59.123456'
tz = timestamp '2020-02-29 00:59:59.123456'
tz = timestamp '2020-02-28T23:59:59.123456Z'
tz > date '2020-02-28'
d = timestamp '2020-02-29 00:00:00'
tsns > ts
ts < tz
d < ts
not (t <= '01:00:00')
t = cast('01:02:03' as string)
f64 > f32
f32 = 1.1
f32 = cast(1.1 as double)
f32 = cast(1.5 as double)
f32 in (cast(1.5 as double))
i64 = f64
i64 = u64
not (u64 <= -1)
b > false
b = (a = 1)
a = 1 = true
b is not null = true
st is not null
ll is null
fsl is null
is_valid(a)
isnan(f32)
f32 is not distinct from cast('nan' as float)
f32 != f32
f32 = f32
g < 0.0
g >= 0.0
g = 0.0
f64 < g
g in (-0.0)
g between -0.0 and 0.0
g between 0.0 and 0.0
not (g < 0.0)
g + 0.0 < 0.0
s > 'a' and s < 'b'
s in ('a%b')
bin in (x'ff00')
bin > x'00'
s in ('a%b', null)
s is distinct from null
a between -10 and 1 and s like 'a%'
not (a between 0 and 5)
a not between 0 and 5
a + i8 > 0
a * 2 = 2
2 * a = 2
a - 1 = 0
1 - a = 0
a / 2 = 0
a % 2 = 1
- a = 7
f64 * 2 > g
dec * 2 > 1
length(s) = 3
upper(s) = 'A%B'
octet_length(ls) > 2
s || 'x' = 'a%bx'
coalesce(a, 0) = 0
nullif(a, 1) is null
date_part('year', ts) = 2020
date_trunc('day', ts) = timestamp '2020-02-28 00:00:00'
cast(a as double) > 0.5
cast(a as string) = '1'
try_cast(num as int) = 1
array_has(l, 1) or l is null
array_length(l) = 3
st.a.b is null and st is not null
b is not true
b is not false
b is false
(a > 0) is true
(a > 0) is not true
a > 0 or b
a > 0 and b or s is null
not (a > 0 and b)
not (a > 0 or b)
not not b
i8 in (5, -128)
u64 in (18446744073709551615)
u64 >= 18446744073709551615
f32 in (1.5)
f32 = 1.5
f64 in (2.5, 2.5)
g in (0)
g = 0
d in (date '2020-02-29')
d between date '2020-01-01' and date '2021-01-01'
ts between timestamp '2020-01-01' and timestamp '2021-01-01'
ts in (timestamp '2020-02-28 23:59:59.123456')
tsns = timestamp '2020-02-28 23:59:59.123456'
tsns > timestamp '2020-02-28 23:59:59.123456'
dec in (12)
dec between -1 and 13
dec <> 12
bin in (x'', x'ff00')
starts_with(s, 'a')
ends_with(s, 'b') or contains(s, 'B')
regexp_like(s, '^a')
num > '1'
num >= '1' and num < '2'
ls > 'a'
ls in ('ß')
""".strip().split("\n")
"""Filters that pass the same rows."""

EXPRESSIONS = r"""
date_part('millisecond', tsns)
date_part('microsecond', tsns)
date_part('nanosecond', tsns)
a / -1
i64 % -1
-i8
f32 + a
f32 * 2.5
a + f64
f16 + 1
f16 + f16
f16 + f32
u8 + a
u8 + u64
u64 + i8
a + i8
i8 + i64
1 + a
a * 2 + 1
(a + 1) * 2
1 - f32
f32 % 2
f64 % -2
dec + dec
dec - a
dec * a
dec / dec
dec / a
-dec
dec + f64
d - d
ts - ts
ts - tsns
ts + dur
dur + dur
s || ls
f16 = 1.5
s like 'a%'
array_length(fsl)
array_has(l, 1)
array_has(l, 1.0)
array_has(l, null)
array_has(ls_, 'a')
array_has_any(ls_, ['a','x'])
array_has_all(ls_, ['a','b'])
array_has(fsl, 1)
array_position(ls_, 'b')
round(f64)
round(dec, 2)
round(a)
round(f64, 0)
round(2.345, 2) + f64
trunc(f64, 1)
ln(a)
sqrt(f64)
power(a, 2)
power(f64, 0.5)
power(2, a)
exp(a)
abs(f64)
abs(dec)
signum(a)
log(2, a)
coalesce(a, i64)
coalesce(a, 1.5)
coalesce(s, 'x')
coalesce(a, A)
nullif(a, 1)
nullif(s, 'a%b')
greatest(a, f64)
greatest(f64, g)
least(f32, 1)
greatest(s, 'b')
length(ls)
octet_length(ls)
bit_length(ls)
lower(ls)
strpos(s, '_')
lpad(s, 6)
rpad(s, 6, '*')
lpad(s, 2, '*')
btrim(s, 'a')
ltrim(num)
reverse(ls)
repeat(s, 2)
starts_with(s, null)
ends_with(ls, 'x')
contains(ls, ' ')
regexp_like(s, 'B', 'i')
regexp_like(s, 'x')
regexp_like(s, '^a.b$')
regexp_replace(s, '[ab]', 'x')
regexp_replace(s, '([ab])', '<\1>', 'g')
date_part('year', ts)
date_part('month', d)
date_part('day', ts)
date_part('hour', ts)
date_part('minute', ts)
date_part('second', ts)
date_part('millisecond', ts)
date_part('microsecond', ts)
date_part('nanosecond', tsns)
date_part('week', ts)
date_part('dow', ts)
date_part('doy', ts)
date_part('quarter', ts)
date_part('epoch', ts)
date_part('epoch', d)
date_part('hour', tz)
date_part('isodow', ts)
date_part('hour', t)
date_part('hour', d)
datepart('year', ts)
date_trunc('year', ts)
date_trunc('quarter', ts)
date_trunc('week', ts)
date_trunc('day', ts)
date_trunc('hour', ts)
date_trunc('minute', ts)
date_trunc('second', ts)
date_trunc('millisecond', ts)
date_trunc('microsecond', tsns)
date_trunc('day', tz)
date_trunc('day', tsns)
to_timestamp_seconds(a)
to_timestamp_millis(a)
to_timestamp_micros(a)
to_timestamp_nanos(a)
to_timestamp(ts)
to_timestamp(f64)
to_date(ts)
to_unixtime(ts)
from_unixtime(i8)
cast(f64 as int)
cast(dec as int)
cast(dec as decimal(10,2))
cast(f64 as decimal(10,1))
cast(f64 as string)
cast(f32 as string)
cast(g as string)
cast(dec as string)
cast(ts as string)
cast(tsns as string)
cast(tz as string)
cast(t as string)
cast(d as string)
cast(b as string)
try_cast(bin as string)
cast(s as binary)
try_cast(num as int)
try_cast(num as double)
try_cast(i64 as int)
try_cast(f64 as tinyint)
cast(i64 as timestamp)
cast(ts as bigint)
cast(d as int)
cast(d as bigint)
cast(a as date)
cast(ts as timestamp(3))
cast(ts as timestamp(0))
cast(ts as timestamp(9))
cast(tz as timestamp)
cast(tz as date)
cast(d as timestamp)
cast(f64 as boolean)
cast(b as double)
cast(ts as double)
cast(dur as bigint)
cast(f64 as bigint)
cast(a as boolean)
cast('yes' as boolean) and b
cast('1.5e3' as double) + f64
cast('2020-01-01T10:00:00Z' as timestamp) > ts
cast('2020-01-01T10:00:00+02:00' as timestamp) > ts
a is not distinct from i8
nvl(a, 5)
atan2(f64, g)
isnan(a)
pi() + f64
array_element(l, 2)
l[a]
array_max(l)
array_min(l)
_cast_list_f16(fsl)
_cast_list_f16(arrow_cast(fsl, 'List(Float32)'))
_cast_list_f16(_cast_list_f16(fsl))
""".strip().split("\n")
"""Expressions with the same values, type and nullability."""

REFUSED = r"""
_cast_list_f16(l)
_cast_list_f16(f32)
_cast_list_f16(fsl, fsl)
i8 / -1
i64 / -1
abs(i8)
abs(i64)
a / 0
2.5 + a
dur * 2
ts + 1
bin || s
a like '1'
a in (1, 1.5)
a in (1, '1')
a in ()
`st.a` = 1
array_length(ll)
mod(a, 2)
regexp_like(s, '(')
date_trunc('foo', ts)
to_timestamp(d)
cast(g as int)
cast(dec as decimal(3,2))
cast(bin as string)
cast(num as int)
cast(s as boolean)
cast(u64 as bigint)
cast(i8 as tinyint unsigned)
cast('2020-13-01' as date) > d
t > '01:00:00'
u64 > -1
(a, i8) = (1, 2)
a > 0 and s
a and b
1/0 = 1
a = 1/0
b and 1/0 = 1
a > 0 or a/0 = 1
a <> 0 and 10/(a-1) > 1
interval '1 day' > interval '1 hour'
l = [1,2,null]
isnull(a)
a is not distinct from 1.0
~a
if(a > 1, 1, 2)
i8 = 128
u8 = 256
u8 = -1
f64 = 'x'
s = 5
b = 1
d = 5
ts = 5
bin = 'x'
l = 5
st = 5
a = x'00'
a in (1, 'x')
a between 1 and 'x'
a between 1 and 2.5
nope = 1
st.nope = 1
a.b = 1
lower(a, s) = 'x'
nosuch(a) = 1
sum(a) = 1
a in (select 1)
exists (select 1)
a = (select 1)
a; s
(a = 1
a = 'x
`a = 1
a and s
not a
not s
s > 1 and a > 0
cast(a as nosuch) = 1
cast(s as int) = 1
case
between
like 'a'
s like
s like 5
a ~ 1
a & 1 = 1
count(*) > 1
select a from t
drop table t
a = 1 union select 1
""".strip().split("\n")
"""Texts that neither takes."""
