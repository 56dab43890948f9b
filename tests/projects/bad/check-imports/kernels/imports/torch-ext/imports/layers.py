import pandas as pd


def relu(x):
    return pd.Series(x).clip(0)
