CREATE TABLE side (key BIGINT, `value` STRING) WITH ('connector' = 'lookup-file', 'path' = '${events}/side/0.json');
CREATE TABLE target (
        auction BIGINT, price BIGINT, `value` STRING
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT b.auction, b.price, s.`value`
    FROM (SELECT *, PROCTIME() AS proc_time FROM bid) b JOIN side FOR SYSTEM_TIME AS OF b.proc_time AS s
        ON MOD(b.auction, 2000) = s.key;
