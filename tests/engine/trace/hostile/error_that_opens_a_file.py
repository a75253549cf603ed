# expect: sandbox_file
# says: opens '/etc/shadow'
# in: a copy
class Odd(Exception):
    def __str__(self):
        return open("/etc/shadow").read()  # HERE


raise Odd
