CREATE TABLE target (auction BIGINT, price BIGINT) WITH ('connector' = 'changelog-files', 'path' = '${results}');
-- Without the number of the place, which would change ten rows for a new highest bid.
INSERT INTO target
    SELECT auction, price FROM (
        SELECT auction, price, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid)
    WHERE place <= 10;
