CREATE TABLE target (
        category BIGINT, average DOUBLE, PRIMARY KEY (category) NOT ENFORCED
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT category, AVG(CAST(final AS DOUBLE)) FROM (
        SELECT MAX(b.price) AS final, a.category FROM auction a JOIN bid b ON a.id = b.auction
        WHERE b.`time` BETWEEN a.`time` AND a.expires
        GROUP BY a.id, a.category)
    GROUP BY category;
