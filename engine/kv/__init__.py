"""KV memory: pages with counted holders, the tensors behind them, the tables that name them."""
