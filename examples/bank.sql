-- Bank: balances from transfers that can be cancelled. The same tables as in examples/bank.py.
-- The key of a fact is its transfer, so a table of facts has the current state of each; a cancellation has no payer.

CREATE TABLE facts (transfer STRING PRIMARY KEY, payer STRING, payee STRING, cents BIGINT)
    WITH (KAFKA_TOPIC = 'facts', VALUE_FORMAT = 'JSON');

CREATE TABLE received AS SELECT payee, SUM(cents) AS cents FROM facts WHERE payer != '' GROUP BY payee;
CREATE TABLE paid AS SELECT payer, SUM(cents) AS cents FROM facts WHERE payer != '' GROUP BY payer;

CREATE TABLE balances AS
    SELECT ROWKEY AS account, IFNULL(received.cents, 0) - IFNULL(paid.cents, 0) AS cents
    FROM received FULL JOIN paid ON received.payee = paid.payer;
