"""What can be configured: Kafka's keys, where their values come from, and what they come to.

Pure but for one function that reads a properties file. From the outside in:

    load         properties file < `KAFKA_*` variables < `--set`: a `BrokerConfig`, or one `ConfigError` of one line
    broker       `BrokerConfig`, the typed values; immutable, made anew when a value changes at run time
    topic        `TopicConfig`, one topic's settings: its overrides over the broker's defaults
    dynamic      what ZooKeeper holds for this broker and for all, laid over what the broker was started with
    alter        requests to change configs: the new overrides, or the error that Kafka answers
    describe     values with sources, synonyms, types and documentation
    settings     the layers of texts below all of these, and which of them wins
    listeners    the addresses, cross-checked
    keys, values the table of keys, and texts <-> values

A key is added as one line of `broker_keys.json` and, if the broker uses it, one attribute of `BrokerConfig`. Secrets
stay inside `Settings`: no description, error, warning or `repr` shows one.
"""
