"""Where Spark looks for the data source: pyspark imports every top-level module named `pyspark_*`.

It takes the attribute `DefaultSource` of each. This module has none, so Spark finds it and registers
nothing. One module that fails to import makes Spark give up on all of them, hence the rule for this
file: it imports nothing that a machine with pyspark might lack.
"""
