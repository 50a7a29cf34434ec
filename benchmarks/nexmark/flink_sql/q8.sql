CREATE TABLE target (
        id BIGINT, `start` BIGINT, name STRING
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT p.id, CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', p.window_start) AS BIGINT) * 1000, p.name
    FROM (
        SELECT id, name, window_start, window_end
        FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
        GROUP BY id, name, window_start, window_end
    ) p JOIN (
        SELECT seller, window_start, window_end
        FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
        GROUP BY seller, window_start, window_end
    ) a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end;
