"""Whoever starts from the top has the same gap again: process 3 looks before process 1 writes."""


def schedule() -> str:
    return "12222111331133"
