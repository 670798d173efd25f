-- A ledger of layout 1, as dp_sql wrote it: the text of sqlite3's .dump. See test_ledger_layouts.py.
BEGIN TRANSACTION;
CREATE TABLE entries (
        id INTEGER NOT NULL PRIMARY KEY,
        statement INTEGER NOT NULL REFERENCES statements (id),
        identity TEXT NOT NULL REFERENCES tables (identity),
        pure TEXT NOT NULL,
        rdp TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        events TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL
    );
INSERT INTO "entries" VALUES(1,1,'/data/shop.parquet','250000000000','inf','0','250000000000','0','[{"v":1,"event":"laplace","scale":"64","profiles":[[["16","1"]]]}]','0000000000000000000000000000000000000000000000000000000000000000','908a65872bc4f330e8cca3fb068545b4824a47a290212c26705b6b9db7a2f997');
INSERT INTO "entries" VALUES(2,2,'/data/shop.parquet','250000000000','inf','100000000000000000','250000000000','100000000000000000','[{"v":1,"event":"key_selection","noise":{"v":1,"event":"laplace","scale":"64","profiles":[[["16","1"]]]},"delta":"1/10000000"}]','908a65872bc4f330e8cca3fb068545b4824a47a290212c26705b6b9db7a2f997','0a4e08e6ce9fc024a2bbeacddec253e6c508d88927dd67f2b19d967bfd1f965e');
INSERT INTO "entries" VALUES(3,2,'id:items','inf','1504382325','0','100000000000','1000000000000000','[{"v":1,"event":"gaussian","sigma":"64","l2_squared":"1"}]','0a4e08e6ce9fc024a2bbeacddec253e6c508d88927dd67f2b19d967bfd1f965e','6d1f535acd1a34d0ba83cc14481235555d37e570f807d4757061899bcf4d069f');
INSERT INTO "entries" VALUES(4,3,'id:items','500000000000','442608267878','0','500000000000','0','[{"v":1,"event":"laplace","scale":"32","profiles":[[["16","1"]]]}]','6d1f535acd1a34d0ba83cc14481235555d37e570f807d4757061899bcf4d069f','2eda3b9fabecf5721c849e97a317331890261f72fcda394d40039baadfd8f666');
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO "schema_version" VALUES(1);
CREATE TABLE statements (
        id INTEGER NOT NULL PRIMARY KEY,
        query_id TEXT NOT NULL UNIQUE,
        time TEXT NOT NULL,
        analyst TEXT NOT NULL,
        status TEXT CHECK (status IN ('reserved', 'answered', 'failed')),
        sql_hash TEXT NOT NULL,
        sql TEXT NOT NULL
    );
INSERT INTO "statements" VALUES(1,'q1','2026-11-30T17:11:07+00:00','ada','answered','5486a448424e2d88baf27db77161764297b80802ae3a641071fb75bebb7aad6b','SELECT COUNT(*) FROM orders');
INSERT INTO "statements" VALUES(2,'q2','2026-11-30T17:11:07+00:00','grace','failed','81e6944ca82d1430871878a722c097991305284e8e6b3b5fce7646312529f7e7','SELECT COUNT(*) FROM orders, items');
INSERT INTO "statements" VALUES(3,'q3','2026-11-30T17:11:07+00:00','owner','reserved','ebbfc8481e9e6f99228eb0f26ce111fdebbe379bc4e6659f6c99037e3c59fab6','SELECT ''Ünü'' FROM items');
CREATE TABLE sums (
        identity TEXT NOT NULL PRIMARY KEY REFERENCES tables (identity),
        entries INTEGER NOT NULL,
        pure TEXT NOT NULL,
        rdp TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        digest TEXT NOT NULL
    );
INSERT INTO "sums" VALUES('/data/shop.parquet',2,'500000000000','inf','100000000000000000','500000000000','100000000000000000','e0a0b58e9f3528fccdfa72054a9c76472fb22f867cec22b1fa197bcf48ba7a13');
INSERT INTO "sums" VALUES('id:items',2,'inf','444112650203','0','600000000000','1000000000000000','27e96df64b8b66e1a776d420511f5b71f48b850aa91cd206cbb1ac277536d06f');
CREATE TABLE tables (
        identity TEXT NOT NULL PRIMARY KEY,
        name TEXT NOT NULL,
        level TEXT NOT NULL,
        adjacency TEXT NOT NULL,
        group_size INTEGER NOT NULL,
        unit TEXT NOT NULL,
        accountant TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        alpha TEXT,
        registered_at TEXT NOT NULL,
        digest TEXT NOT NULL
    );
INSERT INTO "tables" VALUES('/data/shop.parquet','orders','user','add_remove',1,'unit','pure','1/1','1/1000000','1/1000000',NULL,'2026-11-30T17:11:07+00:00','e917d105ffdee9b4b991f7a72dc8f48eb0c58b55c245e25ac6d67a55a13c2328');
INSERT INTO "tables" VALUES('id:items','items','user','add_remove',1,'unit','renyi','2/1','1/500000','1/1000000','12.3239','2026-11-30T17:11:07+00:00','70de31d91557e672816238b4147a06a272756c3876c79ea17be2d8750f28de75');
CREATE INDEX entries_of_table ON entries (identity, id);
COMMIT;
