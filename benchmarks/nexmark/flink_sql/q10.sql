CREATE TABLE target (
        auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `time` BIGINT, extra STRING,
        `day` STRING, `minute` STRING
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT auction, bidder, price, channel, url, `time`, extra, DATE_FORMAT(event_time, 'yyyy-MM-dd'),
        DATE_FORMAT(event_time, 'HH:mm')
    FROM bid;
