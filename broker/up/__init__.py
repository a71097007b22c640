"""`minikafka up`: a cluster on one machine, as child processes of one command.

plan        who listens where with which settings; pure
folder      the folder that a cluster keeps everything in
child       one broker process: its output, whether it is ready, its end
cluster     starting all, reporting what happens to them, stopping all
"""
