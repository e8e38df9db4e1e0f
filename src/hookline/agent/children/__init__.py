"""Child runs: started by a tool or a hook, under the policies and limits of the run above."""
