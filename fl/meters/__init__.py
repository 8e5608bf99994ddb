"""What can be pieced together from all answers of a run: sums, similarities and who took part are one account.

Pure functions of an account: `span`, what part of each update lies along directions that the server knows; `temporal`, how well
it can estimate what a client does in every round; `participation`, how far sums tell one client from the others.
"""
