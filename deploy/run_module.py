"""`python -m` for spark-submit, which takes a file and no module.

spark-submit run_module.py minikafka.spark_jobs.jobs.word_count --topic words
"""

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
