"""The codec compiled with mypyc: ``python -m tests.compiled`` (needs the extra ``compiled`` and a C
compiler).
"""
