"""The computing half's process: it keeps the rows, runs a plan through the model, and answers with tokens.

This file and rpc.py import no torch: the executors read the method table in the core's process.
"""
