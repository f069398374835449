"""The processes that train one model together, as each of them sees the others."""
