"""Imported last by a server of processes: the objects that exist by then are left out of garbage collection.

A process that is forked from the server would otherwise visit all objects of torch, and copy their pages, whenever it
collects garbage. That takes 0.2 seconds of CPU time.
"""

import gc

gc.collect()
gc.freeze()
