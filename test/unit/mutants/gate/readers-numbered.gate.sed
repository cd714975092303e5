# Search readers
# The grants of readers are numbered.
/^give(/,/^}/ s/gate->shared ? 0 : //
