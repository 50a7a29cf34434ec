CREATE TABLE target (
        seller BIGINT, average DOUBLE, PRIMARY KEY (seller) NOT ENFORCED
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT seller, AVG(CAST(final AS DOUBLE)) FROM (
        SELECT seller, final, ROW_NUMBER() OVER (PARTITION BY seller ORDER BY id DESC) AS age FROM (
            SELECT a.id, a.seller, MAX(b.price) AS final FROM auction a JOIN bid b ON a.id = b.auction
            WHERE b.`time` BETWEEN a.`time` AND a.expires
            GROUP BY a.id, a.seller))
    WHERE age <= 10 GROUP BY seller;
