# expect: sandbox_file
# says: /etc/passwd
# in: a copy
users = open("/etc/passwd").read()  # HERE
