-- A ledger of layout 2, as dp_sql wrote it: the text of sqlite3's .dump. See test_ledger_layouts.py.
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
INSERT INTO "entries" VALUES(1,1,'/data/shop.parquet','250000000000','inf','0','250000000000','0','[{"v":1,"event":"laplace","scale":"64","profiles":[[["16","1"]]]}]','0000000000000000000000000000000000000000000000000000000000000000','84d5af9a157ee9f75537c6f17ae388f25d3fac67db176a5f55f166004dda3c9e');
INSERT INTO "entries" VALUES(3,2,'/data/shop.parquet','250000000000','inf','100000000000000000','250000000000','100000000000000000','[{"v":1,"event":"key_selection","noise":{"v":1,"event":"laplace","scale":"64","profiles":[[["16","1"]]]},"delta":"1/10000000"}]','6494f86c7ee0379fb5a85177e102e6e42231fcda754920e1a22ce75cf8e4c783','3e8f47f11076c60b3255a5085da1b74c5cb87294a2b457ea6f988a7c15db0574');
INSERT INTO "entries" VALUES(4,2,'id:items','inf','1504382325','0','100000000000','1000000000000000','[{"v":1,"event":"gaussian","sigma":"64","l2_squared":"1"}]','3e8f47f11076c60b3255a5085da1b74c5cb87294a2b457ea6f988a7c15db0574','fca496aca99e66a45364c31c3df7f3c1df4f19963cf4f9a0471f83d05cf75007');
INSERT INTO "entries" VALUES(5,3,'id:items','500000000000','442608267878','0','500000000000','0','[{"v":1,"event":"laplace","scale":"32","profiles":[[["16","1"]]]}]','fca496aca99e66a45364c31c3df7f3c1df4f19963cf4f9a0471f83d05cf75007','18b84d95685231e0f95be1ba8b463ca440735cfcf55e30af9f2b75a2ffe96683');
CREATE TABLE raises (
        id INTEGER NOT NULL PRIMARY KEY,
        identity TEXT NOT NULL REFERENCES tables (identity),
        time TEXT NOT NULL,
        epsilon TEXT NOT NULL,
        delta TEXT NOT NULL,
        selection_delta TEXT NOT NULL,
        reason TEXT NOT NULL,
        previous TEXT NOT NULL,
        hash TEXT NOT NULL
    );
INSERT INTO "raises" VALUES(2,'/data/shop.parquet','2026-11-30T19:17:56+00:00','3/2','1/1000000','1/1000000','a new consent','84d5af9a157ee9f75537c6f17ae388f25d3fac67db176a5f55f166004dda3c9e','6494f86c7ee0379fb5a85177e102e6e42231fcda754920e1a22ce75cf8e4c783');
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO "schema_version" VALUES(2);
CREATE TABLE statements (
        id INTEGER NOT NULL PRIMARY KEY,
        query_id TEXT NOT NULL UNIQUE,
        time TEXT NOT NULL,
        analyst TEXT NOT NULL,
        status TEXT CHECK (status IN ('reserved', 'answered', 'failed')),
        sql_hash TEXT NOT NULL,
        sql TEXT NOT NULL
    );
INSERT INTO "statements" VALUES(1,'q1','2026-11-30T19:17:56+00:00','ada','answered','5486a448424e2d88baf27db77161764297b80802ae3a641071fb75bebb7aad6b','SELECT COUNT(*) FROM orders');
INSERT INTO "statements" VALUES(2,'q2','2026-11-30T19:17:56+00:00','grace','failed','81e6944ca82d1430871878a722c097991305284e8e6b3b5fce7646312529f7e7','SELECT COUNT(*) FROM orders, items');
INSERT INTO "statements" VALUES(3,'q3','2026-11-30T19:17:56+00:00','owner','reserved','18ed901354c201f7a74eef4d4fcec7060d3213221e4f0a6a02e52aae71bc8874','SELECT 1 FROM items');
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
INSERT INTO "tables" VALUES('/data/shop.parquet','orders','user','add_remove',1,'unit','pure','1/1','1/1000000','1/1000000',NULL,'2026-11-30T19:17:56+00:00','029c55b8c090d7d7788060adf6b77be3973231366a39ab61e8839ec61671e29d');
INSERT INTO "tables" VALUES('id:items','items','user','add_remove',1,'unit','renyi','2/1','1/500000','1/1000000','12.3239','2026-11-30T19:17:56+00:00','a9e2212c809f9044298cdaea659d46a7c1ffac9029ea62756e89e6112d211f76');
CREATE INDEX entries_of_table ON entries (identity, id);
CREATE INDEX raises_of_table ON raises (identity, id);
CREATE INDEX entries_of_statement ON entries (statement);
CREATE INDEX statements_of_analyst ON statements (analyst, id);
CREATE TRIGGER entries_follow_raises BEFORE INSERT ON entries
    WHEN NEW.id <= (SELECT COALESCE(MAX(id), 0) FROM raises)
    BEGIN SELECT RAISE(ABORT, 'an entry follows the last raise'); END;
COMMIT;
