CREATE STREAM ids AS
    SELECT auction, bidder, channel, CASE LCASE(channel)
        WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
        ELSE REGEXP_EXTRACT('(&|^)channel_id=([^&]*)', url, 2) END AS channel_id
    FROM bid;
CREATE STREAM q21 WITH (KAFKA_TOPIC = 'out') AS SELECT * FROM ids WHERE channel_id IS NOT NULL;
