"""Stretches of a round lived again with every outer iteration traced in full: which gradient did it?"""
