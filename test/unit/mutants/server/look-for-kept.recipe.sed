# Seed 695
# A look is refused for a node that its server gives up as soon as another one comes.
/^process_look(/,/^}/ s/is_yielding(&ahead) || //
