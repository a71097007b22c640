"""Every public call of a client at the same time as every other, cancelled at every await, and after closing.

The calls are generated from the classes, so a new method is tested by being there.

calls     the public methods of a class, with arguments by the names of their parameters
running   what may come of a call, and how it is run: together with others, cancelled at an await, bounded in time
"""
