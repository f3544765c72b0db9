"""The job that contenders do, how it is timed, and the parts that several of them are made of."""
