-- What is in it is durable when this returns (S2).
COMMIT
