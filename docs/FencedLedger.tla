---------------------------- MODULE FencedLedger ----------------------------
(* One partition of a FencedLedger, by the rules of the contract. The crate `model` has the same model for the tests,   *)
(* where the core's own code judges; the two reach the same number of states. docs/tla.sh runs this text.              *)
(*                                                                                                                     *)
(* There are no clients and no network. The most general client sends any holder, generation, acquisition and id at    *)
(* any moment: delayed, repeated, lost and forged calls are all special cases of it. Refusals and replays change       *)
(* nothing, but for the first one that rests on an expiry (T2).                                                        *)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS Holders, MaxClock, MaxAcquisition, Ids, MaxLog, MaxRestores, TTL

VARIABLES
  clock,     \* the store's clock, which steps back too
  lease,     \* <<>>, or <<the stored lease>>
  recorded,  \* the recorded time (T2)
  log,       \* the entries
  pending,   \* <<>>, or <<the append that was judged under the lock and is not yet committed>>
  mark,      \* the witness's mark (I3): the log up to there, which is what a chain value stands for
  minted,    \* how many acquisitions were ever granted
  granted,   \* <<generation, acquisition>> of every claim that was ever granted, those that a restore has lost too
  told,      \* whether somebody was told that the newest tenure has expired
  restores   \* how often an older copy took the place of the store

store == <<lease, recorded, log>>
vars == <<clock, lease, recorded, log, pending, mark, minted, granted, told, restores>>

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Acquisitions == 1..MaxAcquisition
Generations == 1..(MaxAcquisition * (1 + MaxRestores) + MaxRestores)
Tokens == [holder : Holders, generation : Generations, acquisition : Acquisitions]
IsPrefix(one, other) == Len(one) <= Len(other) /\ one = SubSeq(other, 1, Len(one))

Judged == Max(clock, recorded)
RolledBack == ~IsPrefix(mark, log)
Known(acquisition) == \E i \in 1..Len(log) : log[i].kind = "claimed" /\ log[i].token.acquisition = acquisition
InLog(id) == \E i \in 1..Len(log) : log[i].kind = "appended" /\ log[i].id = id
HasRoom == Len(log) + Len(pending) < MaxLog
IsFree == pending = <<>>

(* The checks that append, renewal and release share (J1). *)
IsCurrent(token) == IF lease = <<>> THEN FALSE ELSE lease[1].token = token /\ ~lease[1].vacant
Valid(token) == IsCurrent(token) /\ Judged < lease[1].expires
Expired(token) == IsCurrent(token) /\ Judged >= lease[1].expires

IsClaimable == IF lease = <<>> THEN TRUE ELSE lease[1].vacant \/ Judged >= lease[1].expires

Entry(kind, id, token, at, seen) == [kind |-> kind, id |-> id, token |-> token, at |-> at, seen |-> seen]

Init ==
  /\ clock = 0 /\ lease = <<>> /\ recorded = 0 /\ log = <<>> /\ pending = <<>> /\ mark = <<>>
  /\ minted = 0 /\ granted = {} /\ told = FALSE /\ restores = 0

Forward == clock < MaxClock /\ clock' = clock + 1 /\ UNCHANGED <<store, pending, mark, minted, granted, told, restores>>
Back == clock > 0 /\ clock' = clock - 1 /\ UNCHANGED <<store, pending, mark, minted, granted, told, restores>>

(* C1, C4, G1. What was observed must be the state as it is; a claim from another observation changes nothing. The     *)
(* witness is asked first (I3), and has the new mark before the claim is answered.                                     *)
Claim(holder, acquisition) ==
  /\ IsFree /\ HasRoom /\ ~RolledBack
  /\ acquisition <= minted + 1 /\ ~Known(acquisition)
  /\ IsClaimable
  /\ LET generation == IF lease = <<>> THEN 1 ELSE lease[1].token.generation + 1
         token == [holder |-> holder, generation |-> generation, acquisition |-> acquisition]
     IN /\ lease' = <<[token |-> token, expires |-> Judged + TTL, vacant |-> FALSE]>>
        /\ log' = Append(log, Entry("claimed", 0, token, Judged, <<>>))
        /\ granted' = granted \cup {<<generation, acquisition>>}
  /\ mark' = log' /\ recorded' = Judged /\ minted' = Max(minted, acquisition) /\ told' = FALSE
  /\ UNCHANGED <<clock, pending, restores>>

(* R1 *)
Renew(token) ==
  /\ IsFree /\ Valid(token)
  /\ lease' = <<[lease[1] EXCEPT !.expires = Max(@, Judged + TTL)]>>
  /\ recorded' = Judged
  /\ UNCHANGED <<clock, log, pending, mark, minted, granted, told, restores>>

(* R3 *)
Release(token) ==
  /\ IsFree /\ HasRoom /\ Valid(token)
  /\ lease' = <<[lease[1] EXCEPT !.vacant = TRUE]>>
  /\ log' = Append(log, Entry("released", 0, token, Judged, lease))
  /\ recorded' = Judged
  /\ UNCHANGED <<clock, pending, mark, minted, granted, told, restores>>

(* T2: the first answer that rests on the expiry stores the judged time; an append, a renewal, a release or the claim   *)
(* of that very acquisition may be what meets it.                                                                      *)
TellExpiry(token) ==
  /\ IsFree /\ Expired(token)
  /\ recorded' = Judged /\ told' = TRUE
  /\ UNCHANGED <<clock, lease, log, pending, mark, minted, granted, restores>>

(* A1: judged under the lock, at a time that was read after it was won (T4) ...                                         *)
Begin(token, id) ==
  /\ IsFree /\ HasRoom /\ Valid(token) /\ ~InLog(id)
  /\ pending' = <<[token |-> token, id |-> id, at |-> Judged]>>
  /\ UNCHANGED <<clock, store, mark, minted, granted, told, restores>>

(* ... and written with that time, however long the commit takes; or not at all.                                        *)
Commit ==
  /\ pending # <<>>
  /\ LET begun == pending[1]
     IN /\ log' = Append(log, Entry("appended", begun.id, begun.token, begun.at, lease))
        /\ recorded' = Max(recorded, begun.at)
  /\ pending' = <<>>
  /\ UNCHANGED <<clock, lease, mark, minted, granted, told, restores>>
Abort == pending # <<>> /\ pending' = <<>> /\ UNCHANGED <<clock, store, mark, minted, granted, told, restores>>

(* I3: the witness is shown the newest entry. It takes no mark that does not go on from the one that it has.            *)
Note ==
  /\ Len(log) > Len(mark) /\ IsPrefix(mark, log) /\ mark' = log
  /\ UNCHANGED <<clock, store, pending, minted, granted, told, restores>>

(* The store as it stood just after its first n entries.                                                                *)
Restore(n) ==
  /\ restores < MaxRestores /\ restores' = restores + 1
  /\ log' = SubSeq(log, 1, n)
  /\ recorded' = IF n = 0 THEN 0 ELSE log[n].at
  /\ lease' = IF n = 0 THEN <<>> ELSE LET last == log[n] IN
       CASE last.kind = "claimed" -> <<[token |-> last.token, expires |-> last.at + TTL, vacant |-> FALSE]>>
         [] last.kind = "appended" -> last.seen
         [] last.kind = "released" -> <<[last.seen[1] EXCEPT !.vacant = TRUE]>>
  /\ pending' = <<>> /\ told' = FALSE
  /\ UNCHANGED <<clock, mark, minted, granted>>

(* I3: an operator goes on, above every generation that was ever seen.                                                  *)
Seen == {mark[i].token.generation : i \in 1..Len(mark)} \cup {lease[1].token.generation}
Advance ==
  /\ IsFree /\ HasRoom /\ RolledBack /\ lease # <<>>
  /\ LET highest == CHOOSE generation \in Seen : \A other \in Seen : other <= generation
         token == [lease[1].token EXCEPT !.generation = highest + 1]
     IN /\ lease' = <<[token |-> token, expires |-> lease[1].expires, vacant |-> TRUE]>>
        /\ log' = Append(log, Entry("advanced", 0, token, Judged, <<>>))
  /\ mark' = log' /\ recorded' = Judged /\ told' = FALSE
  /\ UNCHANGED <<clock, pending, minted, granted, restores>>

Next ==
  \/ Forward \/ Back \/ Commit \/ Abort \/ Note \/ Advance
  \/ \E holder \in Holders, acquisition \in Acquisitions : Claim(holder, acquisition)
  \/ \E token \in Tokens :
       Renew(token) \/ Release(token) \/ TellExpiry(token) \/ \E id \in Ids : Begin(token, id)
  \/ \E n \in 0..(Len(log) - 1) : Restore(n)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* In every state *)

Entries == 1..Len(log)
Fenced == \A i \in Entries : log[i].kind = "appended" =>
  LET seen == log[i].seen[1] IN ~seen.vacant /\ seen.token = log[i].token /\ log[i].at < seen.expires
OwnRelease == \A i \in Entries : log[i].kind = "released" => log[i].seen[1].token = log[i].token
GenMonotone == \A i, j \in Entries : i < j => log[i].token.generation <= log[j].token.generation
OneHolder == \A i, j \in Entries :
  (log[i].kind # "advanced" /\ log[j].kind # "advanced" /\ log[i].token.generation = log[j].token.generation)
    => log[i].token = log[j].token
Once == \A i, j \in Entries : i < j /\ log[i].kind = log[j].kind =>
  /\ log[i].kind = "appended" => log[i].id # log[j].id
  /\ log[i].kind = "claimed" => log[i].token.acquisition # log[j].token.acquisition
TimeMonotone == \A i, j \in Entries : i < j => log[i].at <= log[j].at
GrantedOnce ==
  /\ \A one, other \in granted : one[1] = other[1] => one = other
  /\ \A i \in Entries : log[i].kind = "advanced" => \A one \in granted : one[1] # log[i].token.generation

-----------------------------------------------------------------------------
(* Over every step *)

Token(l) == IF l = <<>> THEN [holder |-> 0, generation |-> 0, acquisition |-> 0] ELSE l[1].token
IsRestore == restores' # restores
IsClaim == Len(log') = Len(log) + 1 /\ log'[Len(log')].kind = "claimed"
NewHolder == Token(lease').acquisition # Token(lease).acquisition

GenUp == [][IsRestore \/ ( /\ Token(lease').generation >= Token(lease).generation
                           /\ NewHolder => Token(lease').generation > Token(lease).generation)]_vars
NoSteal == [][(~IsRestore /\ NewHolder /\ lease # <<>>) => (lease[1].vacant \/ Judged >= lease[1].expires)]_vars
NoRevive == [][(~IsRestore /\ lease # <<>> /\ Token(lease') = Token(lease)
                /\ (lease'[1].expires > lease[1].expires \/ (lease[1].vacant /\ ~lease'[1].vacant)))
               => (~lease[1].vacant /\ Judged < lease[1].expires)]_vars
FreshAcq == [][IsClaim => ~Known(Token(lease').acquisition)]_vars
FreshTime == [][ /\ (pending = <<>> /\ pending' # <<>>) => pending'[1].at >= clock
                 /\ (pending = <<>> /\ Len(log') > Len(log)) => log'[Len(log')].at >= clock ]_vars
ToldIsFinal == [][(told /\ ~IsRestore /\ Token(lease') = Token(lease))
                  => (Len(log') = Len(log) /\ lease' = lease /\ ~(pending = <<>> /\ pending' # <<>>))]_vars
MarkKept == [][IsClaim => ~RolledBack]_vars
LogGrows == [][IsRestore \/ IsPrefix(log, log')]_vars

(* U2: `fate` is asked by anybody at any moment, of what is committed. What it says is final.                           *)
HasEnded(l, r, generation) == l # <<>> /\
  (generation < l[1].token.generation \/ (generation = l[1].token.generation /\ (l[1].vacant \/ r >= l[1].expires)))
FateFinal == [][IsRestore \/ \A id \in Ids, generation \in Generations :
  (~InLog(id) /\ HasEnded(lease, recorded, generation))
    => IF InLog(id)' THEN \A i \in 1..Len(log') : log'[i].id = id => log'[i].token.generation # generation
       ELSE HasEnded(lease', recorded', generation)]_vars
=============================================================================
