"""Who is compared: each file does the same job in its own way, in a process of its own.

    cd benchmarks && python -m contenders.plain_jax --task CartPole --steps 20000 --seed 0

prints one line of JSON. They are started as modules, and not as scripts, because a script called `sbx.py` would find
itself where it asks for the library.
"""
