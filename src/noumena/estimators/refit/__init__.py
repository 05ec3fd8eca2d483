"""The exactly sparse refit of a fitted decoder and the search of its structure by held-out loss."""
