"""SQL: the language of ksqlDB, translated to handles of the DSL; it knows no broker, no Spark and no app."""
