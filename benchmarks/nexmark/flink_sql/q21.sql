CREATE TABLE target (
        auction BIGINT, bidder BIGINT, channel STRING, channel_id STRING
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT auction, bidder, channel, CASE LOWER(channel)
        WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
        ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END
    FROM bid
    WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL
        OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu');
