-- Takes the write lock, before anything is read (A1) and before the clock is (T4). A deferred transaction would read
-- first, and be judged by what has changed when it comes to write.
BEGIN IMMEDIATE
