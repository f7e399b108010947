"""The trial: everything that people, disks and kills do to the suite, tried by the thousand.

python -m tests.mutate --minutes 10 --seed 0
python -m tests.mutate --case problem_files:0:17        # again, the case that was found

A case is drawn from (subject, seed, number) alone. A subject is a module here, with one class; see `trial.Subject`.
"""
