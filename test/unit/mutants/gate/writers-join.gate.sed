# Writers hold a node together.
/^zklock_gate_join(/,/^}/ s/gate->shared \&\& //
