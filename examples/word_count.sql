-- Word count: read lines, write the count of each word. The same app as examples/word_count.py.
--
-- millstream run examples/word_count.sql
-- millstream sql examples/word_count.sql -c 'SELECT * FROM words ORDER BY n DESC LIMIT 3;'

CREATE STREAM lines (line STRING) WITH (KAFKA_TOPIC = 'lines', VALUE_FORMAT = 'KAFKA');

CREATE TABLE words WITH (KAFKA_TOPIC = 'word-counts', VALUE_FORMAT = 'JSON', WRAP_SINGLE_VALUE = FALSE) AS
    SELECT word, COUNT(*) AS n
    FROM (SELECT EXPLODE(REGEXP_SPLIT_TO_ARRAY(TRIM(LCASE(line)), ' +')) AS word FROM lines) split
    GROUP BY word;
