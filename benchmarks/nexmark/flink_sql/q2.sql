CREATE TABLE target (auction BIGINT, price BIGINT) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;
