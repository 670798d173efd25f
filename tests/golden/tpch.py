"""TPC-H's queries in their original text, and its tables as a schema whose unit is the customer."""

# ruff: noqa: E501  the schema, a table a line

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCHEMA = """
version: 1
database: "duckdb://"                       # in memory
privacy:
  level: user
  adjacency: add_remove
  unit: customer
  defaults: {epsilon: 1, delta: 1e-9}
  caps: {epsilon: 1e12}
tables:
  customer:
    source: customer.parquet
    owner: c_custkey
    budget: {epsilon: 1e18, delta: 0.1, accountant: sequential}
    limits: {max_groups: 400, max_rows_per_group: 400}
    columns:
      c_custkey: {type: bigint, unique: true}
      c_name: {type: varchar}
      c_address: {type: varchar}
      c_nationkey: {type: bigint, bounds: [0, 24]}
      c_phone: {type: varchar, max_length: 15}
      c_acctbal: {type: "decimal(15,2)", bounds: [-999.99, 9999.99]}
      c_mktsegment: {type: varchar, values: [AUTOMOBILE, BUILDING, FURNITURE, HOUSEHOLD, MACHINERY]}
      c_comment: {type: varchar}
  orders:
    source: orders.parquet
    owner: o_custkey
    budget: {epsilon: 1e18, delta: 0.1, accountant: sequential}
    limits: {max_groups: 400, max_rows_per_group: 400}
    columns:
      o_orderkey: {type: bigint, unique: true}
      o_custkey: {type: bigint}
      o_orderstatus: {type: varchar, values: [F, O, P]}
      o_totalprice: {type: "decimal(15,2)", bounds: [0, 600000]}
      o_orderdate: {type: date, bounds: [1992-01-01, 1998-12-31]}
      o_orderpriority: {type: varchar, values: ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]}
      o_clerk: {type: varchar, max_length: 15}
      o_shippriority: {type: integer, bounds: [0, 0]}
      o_comment: {type: varchar}
  lineitem:
    source: lineitem.parquet
    owner: {through: orders, on: {l_orderkey: o_orderkey}}
    budget: {epsilon: 1e18, delta: 0.1, accountant: sequential}
    limits: {max_groups: 400, max_rows_per_group: 400}
    columns:
      l_orderkey: {type: bigint}
      l_partkey: {type: bigint}
      l_suppkey: {type: bigint}
      l_linenumber: {type: integer, bounds: [1, 7]}
      l_quantity: {type: "decimal(15,2)", bounds: [1, 50]}
      l_extendedprice: {type: "decimal(15,2)", bounds: [0, 110000]}
      l_discount: {type: "decimal(15,2)", bounds: [0, 0.1]}
      l_tax: {type: "decimal(15,2)", bounds: [0, 0.08]}
      l_returnflag: {type: varchar, values: [A, N, R]}
      l_linestatus: {type: varchar, values: [F, O]}
      l_shipdate: {type: date, bounds: [1992-01-01, 1998-12-31]}
      l_commitdate: {type: date, bounds: [1992-01-01, 1998-12-31]}
      l_receiptdate: {type: date, bounds: [1992-01-01, 1998-12-31]}
      l_shipinstruct: {type: varchar, max_length: 25}
      l_shipmode: {type: varchar, values: [AIR, FOB, MAIL, RAIL, "REG AIR", SHIP, TRUCK]}
      l_comment: {type: varchar}
  part:
    source: part.parquet
    public: true
    columns: {p_partkey: {type: bigint, unique: true}, p_name: {type: varchar}, p_mfgr: {type: varchar}, p_brand: {type: varchar}, p_type: {type: varchar}, p_size: {type: integer}, p_container: {type: varchar}, p_retailprice: {type: "decimal(15,2)"}, p_comment: {type: varchar}}
  partsupp:
    source: partsupp.parquet
    public: true
    unique: [[ps_partkey, ps_suppkey]]
    columns: {ps_partkey: {type: bigint}, ps_suppkey: {type: bigint}, ps_availqty: {type: integer}, ps_supplycost: {type: "decimal(15,2)", bounds: [1, 1000]}, ps_comment: {type: varchar}}
  supplier:
    source: supplier.parquet
    public: true
    columns: {s_suppkey: {type: bigint, unique: true}, s_name: {type: varchar}, s_address: {type: varchar}, s_nationkey: {type: bigint}, s_phone: {type: varchar}, s_acctbal: {type: "decimal(15,2)"}, s_comment: {type: varchar}}
  nation:
    source: nation.parquet
    public: true
    columns: {n_nationkey: {type: bigint, unique: true}, n_name: {type: varchar}, n_regionkey: {type: bigint}, n_comment: {type: varchar}}
  region:
    source: region.parquet
    public: true
    columns: {r_regionkey: {type: bigint, unique: true}, r_name: {type: varchar}, r_comment: {type: varchar}}
"""


def write_tpch(folder: Path, scale: str) -> None:
    """Write the Parquet files of a scale factor and the schema tpch.yaml into a folder."""
    program = Path(sys.executable).with_name("tpchgen-cli")  # of the test extra
    subprocess.run(
        [program, "parquet", "-s", scale, f"--output-dir={folder}"], check=True, capture_output=True
    )
    (folder / "tpch.yaml").write_text(SCHEMA, encoding="utf-8")


QUERIES = {
    1: """
select l_returnflag,
  l_linestatus,
  sum(l_quantity) as sum_qty,
  sum(l_extendedprice) as sum_base_price,
  sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
  avg(l_quantity) as avg_qty,
  avg(l_extendedprice) as avg_price,
  avg(l_discount) as avg_disc,
  count(*) as count_order
from lineitem
where l_shipdate <= date '1998-12-01' - interval '90' day
group by l_returnflag,
  l_linestatus
order by l_returnflag,
  l_linestatus
""",
    3: """
select l_orderkey,
  sum(l_extendedprice * (1 - l_discount)) as revenue,
  o_orderdate,
  o_shippriority
from customer, orders, lineitem
where c_mktsegment = 'BUILDING'
  and c_custkey = o_custkey
  and l_orderkey = o_orderkey
  and o_orderdate < date '1995-03-15'
  and l_shipdate > date '1995-03-15'
group by l_orderkey,
  o_orderdate,
  o_shippriority
order by revenue desc,
  o_orderdate
limit 10
""",
    4: """
select o_orderpriority,
  count(*) as order_count
from orders
where o_orderdate >= date '1993-07-01'
  and o_orderdate < date '1993-07-01' + interval '3' month
  and exists (select *
from lineitem
where l_orderkey = o_orderkey
  and l_commitdate < l_receiptdate)
group by o_orderpriority
order by o_orderpriority
""",
    5: """
select n_name,
  sum(l_extendedprice * (1 - l_discount)) as revenue
from customer, orders, lineitem, supplier,
  nation, region
where c_custkey = o_custkey
  and l_orderkey = o_orderkey
  and l_suppkey = s_suppkey
  and c_nationkey = s_nationkey
  and s_nationkey = n_nationkey
  and n_regionkey = r_regionkey
  and r_name = 'ASIA'
  and o_orderdate >= date '1994-01-01'
  and o_orderdate < date '1994-01-01' + interval '1' year
group by n_name
order by revenue desc
""",
    6: """
select sum(l_extendedprice * l_discount) as revenue
from lineitem
where l_shipdate >= date '1994-01-01'
  and l_shipdate < date '1994-01-01' + interval '1' year
  and l_discount between 0.06 - 0.01
  and 0.06 + 0.01
  and l_quantity < 24
""",
    7: """
select supp_nation, cust_nation,
  l_year,
  sum(volume) as revenue
from (select n1.n_name as supp_nation,
  n2.n_name as cust_nation, extract(year
from l_shipdate) as l_year,
  l_extendedprice * (1 - l_discount) as volume
from supplier, lineitem, orders, customer,
  nation n1,
  nation n2
where s_suppkey = l_suppkey
  and o_orderkey = l_orderkey
  and c_custkey = o_custkey
  and s_nationkey = n1.n_nationkey
  and c_nationkey = n2.n_nationkey
  and ((n1.n_name = 'FRANCE'
  and n2.n_name = 'GERMANY')
  or (n1.n_name = 'GERMANY'
  and n2.n_name = 'FRANCE'))
  and l_shipdate between date '1995-01-01'
  and date '1996-12-31') as shipping
group by supp_nation, cust_nation,
  l_year
order by supp_nation, cust_nation,
  l_year
""",
    8: """
select o_year,
  sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume) as mkt_share
from (select extract(year
from o_orderdate) as o_year,
  l_extendedprice * (1 - l_discount) as volume,
  n2.n_name as nation
from part, supplier, lineitem, orders, customer,
  nation n1,
  nation n2, region
where p_partkey = l_partkey
  and s_suppkey = l_suppkey
  and l_orderkey = o_orderkey
  and o_custkey = c_custkey
  and c_nationkey = n1.n_nationkey
  and n1.n_regionkey = r_regionkey
  and r_name = 'AMERICA'
  and s_nationkey = n2.n_nationkey
  and o_orderdate between date '1995-01-01'
  and date '1996-12-31'
  and p_type = 'ECONOMY ANODIZED STEEL') as all_nations
group by o_year
order by o_year
""",
    10: """
select c_custkey,
  c_name,
  sum(l_extendedprice * (1 - l_discount)) as revenue,
  c_acctbal,
  n_name,
  c_address,
  c_phone,
  c_comment
from customer, orders, lineitem,
  nation
where c_custkey = o_custkey
  and l_orderkey = o_orderkey
  and o_orderdate >= date '1993-10-01'
  and o_orderdate < date '1993-10-01' + interval '3' month
  and l_returnflag = 'R'
  and c_nationkey = n_nationkey
group by c_custkey,
  c_name,
  c_acctbal,
  c_phone,
  n_name,
  c_address,
  c_comment
order by revenue desc
limit 20
""",
    12: """
select l_shipmode,
  sum(case when o_orderpriority = '1-URGENT'
  or o_orderpriority = '2-HIGH' then 1 else 0 end) as high_line_count,
  sum(case when o_orderpriority <> '1-URGENT'
  and o_orderpriority <> '2-HIGH' then 1 else 0 end) as low_line_count
from orders, lineitem
where o_orderkey = l_orderkey
  and l_shipmode in ('MAIL', 'SHIP')
  and l_commitdate < l_receiptdate
  and l_shipdate < l_commitdate
  and l_receiptdate >= date '1994-01-01'
  and l_receiptdate < date '1994-01-01' + interval '1' year
group by l_shipmode
order by l_shipmode
""",
    13: """
select c_count,
  count(*) as custdist
from (select c_custkey,
  count(o_orderkey)
from customer left outer join orders on c_custkey = o_custkey
  and o_comment not like '%special%requests%'
group by c_custkey) as c_orders (c_custkey,
  c_count)
group by c_count
order by custdist desc,
  c_count desc
""",
    14: """
select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end) / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
from lineitem, part
where l_partkey = p_partkey
  and l_shipdate >= date '1995-09-01'
  and l_shipdate < date '1995-09-01' + interval '1' month
""",
    17: """
select sum(l_extendedprice) / 7.0 as avg_yearly
from lineitem, part
where p_partkey = l_partkey
  and p_brand = 'Brand#23'
  and p_container = 'MED BOX'
  and l_quantity < (select 0.2 * avg(l_quantity)
from lineitem
where l_partkey = p_partkey)
""",
    18: """
select c_name,
  c_custkey,
  o_orderkey,
  o_orderdate,
  o_totalprice,
  sum(l_quantity)
from customer, orders, lineitem
where o_orderkey in (select l_orderkey
from lineitem
group by l_orderkey
having sum(l_quantity) > 300)
  and c_custkey = o_custkey
  and o_orderkey = l_orderkey
group by c_name,
  c_custkey,
  o_orderkey,
  o_orderdate,
  o_totalprice
order by o_totalprice desc,
  o_orderdate
limit 100
""",
    19: """
select sum(l_extendedprice * (1 - l_discount)) as revenue
from lineitem, part
where (p_partkey = l_partkey
  and p_brand = 'Brand#12'
  and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
  and l_quantity >= 1
  and l_quantity <= 1 + 10
  and p_size between 1
  and 5
  and l_shipmode in ('AIR', 'AIR REG')
  and l_shipinstruct = 'DELIVER IN PERSON')
  or (p_partkey = l_partkey
  and p_brand = 'Brand#23'
  and p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
  and l_quantity >= 10
  and l_quantity <= 10 + 10
  and p_size between 1
  and 10
  and l_shipmode in ('AIR', 'AIR REG')
  and l_shipinstruct = 'DELIVER IN PERSON')
  or (p_partkey = l_partkey
  and p_brand = 'Brand#34'
  and p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
  and l_quantity >= 20
  and l_quantity <= 20 + 10
  and p_size between 1
  and 15
  and l_shipmode in ('AIR', 'AIR REG')
  and l_shipinstruct = 'DELIVER IN PERSON')
""",
    22: """
select cntrycode,
  count(*) as numcust,
  sum(c_acctbal) as totacctbal
from (select substring(c_phone
from 1 for 2) as cntrycode,
  c_acctbal
from customer
where substring(c_phone
from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17')
  and c_acctbal > (select avg(c_acctbal)
from customer
where c_acctbal > 0.00
  and substring(c_phone
from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17'))
  and not exists (select *
from orders
where o_custkey = c_custkey)) as custsale
group by cntrycode
order by cntrycode
""",
}
"""By their numbers in the standard."""
