"""A fused kernel in C for the compiled tasks and perceptrons: the loop of `training`, several times faster.

It is compiled on the machine where it runs, once, if there is a C compiler; the package works without it. It draws the
same random numbers as the programs that XLA compiles and follows the same formulas, but rounds differently.
"""
