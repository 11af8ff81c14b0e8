# Atoll's Perl REPL, on a terminal: reads a line, evaluates it when it is whole, prompts again.
# Globals and subs stay; "my" lives as long as its line. Nothing but what the code prints is printed.
$| = 1;
my ($atoll_main, $atoll_more) = splice(@ARGV, 0, 2);
my $atoll_code = "";
$0 = "perl";
$SIG{INT} = sub {};
print $atoll_main;
while (defined(my $line = <STDIN>)) {
  $atoll_code .= $line;
  no strict;
  # Compiled first, so that half of something is never run.
  eval "no warnings; sub {\n$atoll_code\n}";
  if ($@ =~ /Missing right|at EOF|Can't find string terminator/ && $line ne "\n") {
    print $atoll_more;
    next;
  }
  my $whole = $atoll_code;
  $atoll_code = "";
  local $SIG{INT} = sub { die "interrupted\n" };
  eval $whole;
  my $error = $@;
  $SIG{INT} = sub {};
  print STDERR $error if $error ne "";
  $| = 1;
  print $atoll_main;
}
