"""Jobs: whole programs on top of the data source, each a file for `spark-submit` and a module for `python -m`.

    word_count         how often each word occurs, the first example
    metric_monitoring  averages and peaks of metrics in windows; what is out of bounds goes to a topic of alerts
    log_aggregation    log lines, parsed, as parquet files by hour
    stream_enrichment  orders of one topic joined with the customers of another

`running` has what they share: options, the session, showing progress, and a clean stop. `generators` makes up data.
"""
